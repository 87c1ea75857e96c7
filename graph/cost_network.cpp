// SPDX-License-Identifier: Apache-2.0
#include "graph/cost_network.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

namespace tw::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_cost(double cost) { return cost > -infinity; }  // false for NaN too

/// Returns the tables with costs rounded to multiples of a power of two. The power is small enough
/// that rounding does not matter, and large enough that every sum of costs is exact.
std::vector<CostTable> rounded(std::vector<CostTable> tables) {
  double magnitude = 0;
  for (const CostTable& table : tables) {
    double largest = 0;
    for (const double cost : table.costs)
      if (std::isfinite(cost)) largest = std::max(largest, std::abs(cost));
    magnitude += largest;
  }
  if (magnitude == 0) return tables;
  // Number of these multiples in a cost of 1.
  const double units = std::ldexp(1.0, 50 - 1 - std::ilogb(magnitude));
  // Adding and then subtracting it rounds numbers below 2^51 to integers.
  constexpr double to_integer = 0x1.8p52;
  for (CostTable& table : tables)
    for (double& cost : table.costs) cost = (cost * units + to_integer - to_integer) / units;
  return tables;
}

/// The primal graph of a network, updated as variables are eliminated: variables that share a cost
/// table are neighbours.
class NeighbourGraph {
 public:
  explicit NeighbourGraph(const CostNetwork& network)
      : extents_(network.extents()), neighbours_(network.size()) {
    for (const CostTable& table : network.tables())
      for (const size_t a : table.variables)
        for (const size_t b : table.variables)
          if (a < b) connect(a, b);
  }

  /// Returns an elimination order that keeps tables small: the next variable is always the one
  /// whose elimination makes the smallest table (min-weight: Kjaerulff, Triangulation of graphs,
  /// Aalborg 1990).
  std::vector<size_t> elimination_order() {
    std::vector<size_t> order;
    std::vector<double> elements;  // size of the table that eliminating each variable would make
    std::set<std::pair<double, size_t>> left;
    for (size_t v = 0; v < neighbours_.size(); ++v) {
      elements.push_back(elements_left_by(v));
      left.emplace(elements[v], v);
    }
    while (!left.empty()) {
      const size_t next = left.begin()->second;
      left.erase(left.begin());
      order.push_back(next);
      for (const size_t v : eliminate(next)) {
        left.erase({elements[v], v});
        elements[v] = elements_left_by(v);
        left.emplace(elements[v], v);
      }
    }
    return order;
  }

 private:
  void connect(size_t a, size_t b) {
    neighbours_[a].insert(b);
    neighbours_[b].insert(a);
  }

  double elements_left_by(size_t variable) const {
    double elements = 1;
    for (const size_t v : neighbours_[variable]) elements *= static_cast<double>(extents_[v]);
    return elements;
  }

  /// Connects the neighbours of the variable with each other, and returns them.
  std::vector<size_t> eliminate(size_t variable) {
    const std::vector<size_t> around(neighbours_[variable].begin(), neighbours_[variable].end());
    for (const size_t a : around) {
      neighbours_[a].erase(variable);
      for (const size_t b : around)
        if (a < b) connect(a, b);
    }
    return around;
  }

  const std::vector<size_t>& extents_;
  std::vector<std::set<size_t>> neighbours_;
};

double count_elements(const std::vector<size_t>& variables, const std::vector<size_t>& extents) {
  double product = 1;
  for (const size_t v : variables) product *= static_cast<double>(extents[v]);
  return product;
}

/// Tables that are added and minimized over one variable.
struct MiniBucket {
  /// Indices of tables: those of the network come first, then messages.
  std::vector<size_t> tables;
  std::vector<size_t> kept;  ///< variables of the message
};

/// The structure of an elimination: the mini-buckets of each variable, in the order of elimination.
/// It does not depend on costs. The message of a mini-bucket is the table that is left when the
/// tables of the mini-bucket are added and minimized over the variable.
class Outline {
 public:
  Outline(const CostNetwork& network, const std::vector<size_t>& order, double table_elements)
      : extents_(network.extents()),
        order_(order),
        table_elements_(table_elements),
        position_(order.size()),
        received_(order.size()),
        mini_buckets_(order.size()) {
    for (size_t p = 0; p < order.size(); ++p) position_[order[p]] = p;
    for (const CostTable& table : network.tables()) add_table(table.variables);
    for (size_t p = 0; p < order.size(); ++p) eliminate(p);
  }

  const std::vector<MiniBucket>& mini_buckets(size_t position) const {
    return mini_buckets_[position];
  }
  /// Number of elements of all messages together.
  double message_elements() const { return message_elements_; }
  bool is_exact() const { return is_exact_; }
  /// The earliest position of these variables in the elimination order.
  size_t first_position(const std::vector<size_t>& variables) const {
    size_t first = order_.size();
    for (const size_t v : variables) first = std::min(first, position_[v]);
    return first;
  }

 private:
  void add_table(const std::vector<size_t>& variables) {
    if (!variables.empty()) received_[first_position(variables)].push_back(scopes_.size());
    scopes_.push_back(variables);
  }

  void eliminate(size_t position) {
    for (std::vector<size_t>& tables : partition(position)) {
      std::vector<size_t> kept = variables_after(position, tables);
      message_elements_ += elements(kept);
      add_table(kept);
      mini_buckets_[position].push_back({std::move(tables), std::move(kept)});
    }
  }

  /// Partitions the tables of a bucket, large tables first. The message of each part has at most
  /// table_elements_ elements, unless the part is a single table.
  std::vector<std::vector<size_t>> partition(size_t position) {
    std::vector<size_t> tables = received_[position];
    std::vector<std::vector<size_t>> parts = {tables};
    if (elements(variables_after(position, tables)) <= table_elements_) return parts;
    std::stable_sort(tables.begin(), tables.end(), [&](size_t a, size_t b) {
      return elements(scopes_[a]) > elements(scopes_[b]);
    });
    parts.clear();
    for (const size_t table : tables) {
      const auto has_room = [&](std::vector<size_t> part) {
        part.push_back(table);
        return elements(variables_after(position, part)) <= table_elements_;
      };
      const auto part = std::find_if(parts.begin(), parts.end(), has_room);
      if (part == parts.end())
        parts.push_back({table});
      else
        part->push_back(table);
    }
    if (parts.size() > 1) is_exact_ = false;
    return parts;
  }

  /// Returns the variables of these tables that come after `position` in the elimination order. The
  /// variable that is eliminated next is last in the result, so that its states are contiguous when
  /// it is eliminated.
  std::vector<size_t> variables_after(size_t position, const std::vector<size_t>& tables) const {
    std::vector<size_t> positions;
    for (const size_t table : tables)
      for (const size_t v : scopes_[table])
        if (position_[v] != position) positions.push_back(position_[v]);
    std::sort(positions.begin(), positions.end(), std::greater<>());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    for (size_t& p : positions) p = order_[p];
    return positions;
  }

  double elements(const std::vector<size_t>& variables) const {
    return count_elements(variables, extents_);
  }

  const std::vector<size_t>& extents_;
  const std::vector<size_t>& order_;
  const double table_elements_;
  std::vector<size_t> position_;               // position of each variable in the elimination order
  std::vector<std::vector<size_t>> scopes_;    // variables of each table
  std::vector<std::vector<size_t>> received_;  // tables whose first variable has this position
  std::vector<std::vector<MiniBucket>> mini_buckets_;  // mini-buckets by position of the variable
  double message_elements_ = 0;
  bool is_exact_ = true;
};

/// Returns an outline whose messages have at most limits.total_elements together. The limit for a
/// single table is halved until they do. In the worst case every table is a mini-bucket of its own;
/// the messages then take less memory than the network, whatever the limit.
Outline outline_within(const CostNetwork& network, const std::vector<size_t>& order,
                       const SolverLimits& limits) {
  auto table_elements = static_cast<double>(limits.table_elements);
  while (true) {
    Outline outline(network, order, table_elements);
    if (outline.message_elements() <= static_cast<double>(limits.total_elements) ||
        table_elements < 1)
      return outline;
    table_elements /= 2;
  }
}

/// The tables that are added and minimized over one variable.
struct Bucket {
  /// Tables with the variable and with no variable eliminated before it.
  std::vector<const CostTable*> tables;
  std::vector<const CostTable*> messages;  ///< the messages of the mini-buckets of `tables`
  std::vector<size_t> senders;  ///< positions of the buckets that sent messages to `tables`
};

/// Eliminates all variables of a network, by mini-buckets where tables would grow too large.
class Elimination {
 public:
  Elimination(const CostNetwork& network, const SolverLimits& limits)
      : extents_(network.extents()),
        tables_(rounded(network.tables())),
        order_(NeighbourGraph(network).elimination_order()),
        outline_(outline_within(network, order_, limits)),
        buckets_(network.size()) {
    for (const CostTable& table : tables_) {
      buckets_[first_position(table.variables)].tables.push_back(&table);
      numbered_.push_back(&table);
    }
    for (size_t p = 0; p < order_.size(); ++p) eliminate(p);
  }

  size_t size() const { return order_.size(); }
  const std::vector<size_t>& extents() const { return extents_; }
  size_t variable(size_t position) const { return order_[position]; }
  const Bucket& bucket(size_t position) const { return buckets_[position]; }
  /// The least cost of the network, or a lower bound of it where is_exact() is false.
  double lower_bound() const { return lower_bound_; }
  bool is_exact() const { return outline_.is_exact(); }

 private:
  size_t first_position(const std::vector<size_t>& variables) const {
    return outline_.first_position(variables);
  }

  void eliminate(size_t position) {
    Bucket& bucket = buckets_[position];
    for (const MiniBucket& mini_bucket : outline_.mini_buckets(position)) {
      std::vector<const CostTable*> tables;
      for (const size_t table : mini_bucket.tables) tables.push_back(numbered_[table]);
      const CostTable& message = messages_.emplace_back(
          minimized_sum(tables, mini_bucket.kept, {order_[position]}, extents_));
      numbered_.push_back(&message);
      bucket.messages.push_back(&message);
      if (message.variables.empty()) {
        lower_bound_ += message.costs[0];
        continue;
      }
      Bucket& receiver = buckets_[first_position(message.variables)];
      receiver.tables.push_back(&message);
      receiver.senders.push_back(position);
    }
  }

  const std::vector<size_t>& extents_;
  const std::vector<CostTable> tables_;
  const std::vector<size_t> order_;
  const Outline outline_;
  std::vector<Bucket> buckets_;
  std::deque<CostTable> messages_;          // a deque, because buckets point to its elements
  std::vector<const CostTable*> numbered_;  // tables_, then messages_
  double lower_bound_ = 0;
};

/// Best-first search over assignments. Variables get their states in the reverse order of
/// elimination. The messages give a lower bound of the cost that the variables without a state will
/// add.
class BestFirstSearch {
 public:
  BestFirstSearch(const CostNetwork& network, const Elimination& elimination, size_t count,
                  const SolverLimits& limits)
      : network_(network),
        elimination_(elimination),
        count_(count),
        limits_(limits),
        states_(network.size()) {}

  Solution run() {
    nodes_.push_back({elimination_.lower_bound(), 0, no_node, 0});
    if (std::isfinite(nodes_[0].bound)) open_.push(0);
    while (!open_.empty() && solution_.assignments.size() < count_) {
      if (nodes_.size() >= limits_.nodes || limits_.stop.is_stopped()) {
        give_up();
        return std::move(solution_);
      }
      visit(pop());
    }
    solution_.is_optimal = true;
    solution_.lower_bound =
        solution_.assignments.empty() ? infinity : solution_.assignments[0].cost;
    return std::move(solution_);
  }

 private:
  static constexpr uint32_t no_node = std::numeric_limits<uint32_t>::max();
  static constexpr size_t most_tries_per_variable = 16;
  struct Node {
    double bound;
    uint32_t depth;  ///< number of variables that have a state
    uint32_t parent;
    uint32_t state;  ///< index of the state that was assigned last
  };

  /// The order in which nodes are visited: by increasing bound, and among nodes of equal bounds the
  /// deepest first, because it is nearest to a complete assignment.
  struct IsLater {
    const std::vector<Node>& nodes;
    bool operator()(uint32_t a, uint32_t b) const {
      if (nodes[a].bound != nodes[b].bound) return nodes[a].bound > nodes[b].bound;
      if (nodes[a].depth != nodes[b].depth) return nodes[a].depth < nodes[b].depth;
      return a > b;
    }
  };

  uint32_t pop() {
    const uint32_t node = open_.top();
    open_.pop();
    return node;
  }

  size_t position(uint32_t depth) const { return elimination_.size() - depth; }

  void visit(uint32_t index) {
    restore(index);
    const Node node = nodes_[index];
    if (node.depth == elimination_.size()) {
      solution_.assignments.push_back({states_, network_.cost(states_)});
      return;
    }
    const std::vector<double> bounds = child_bounds(node);
    for (size_t s = 0; s < bounds.size(); ++s) {
      if (!std::isfinite(bounds[s])) continue;
      nodes_.push_back({bounds[s], node.depth + 1, index, static_cast<uint32_t>(s)});
      open_.push(static_cast<uint32_t>(nodes_.size() - 1));
    }
  }

  /// Sets states_ to the states of the node and of its ancestors. Stops at the node that was
  /// visited last, because states_ has the states of that node already. Usually that node is the
  /// parent.
  void restore(uint32_t index) {
    for (uint32_t n = index; nodes_[n].parent != no_node && n != visited_; n = nodes_[n].parent)
      states_[elimination_.variable(position(nodes_[n].depth))] = nodes_[n].state;
    visited_ = index;
  }

  /// Returns, for each state of the next variable, a lower bound of the cost of the assignments
  /// that extend the node by this state.
  std::vector<double> child_bounds(const Node& node) {
    const size_t next = position(node.depth + 1);
    const size_t variable = elimination_.variable(next);
    const Bucket& bucket = elimination_.bucket(next);
    double others = node.bound;
    for (const CostTable* message : bucket.messages) others -= message->at(states_);
    std::vector<double> bounds(elimination_.extents()[variable], others);
    for (size_t s = 0; s < bounds.size(); ++s) {
      states_[variable] = s;
      for (const CostTable* table : bucket.tables) bounds[s] += table->at(states_);
    }
    return bounds;
  }

  /// Completes the best open nodes greedily, so that the solution has assignments, although they
  /// are not proved to be the cheapest.
  void give_up() {
    solution_.lower_bound =
        solution_.assignments.empty() ? nodes_[open_.top()].bound : solution_.assignments[0].cost;
    constexpr size_t most_completed = 64;
    std::vector<Assignment> found;
    for (size_t i = 0; i < most_completed && !open_.empty(); ++i)
      if (auto assignment = complete(pop())) found.push_back(std::move(*assignment));
    std::stable_sort(found.begin(), found.end(),
                     [](const Assignment& a, const Assignment& b) { return a.cost < b.cost; });
    for (Assignment& assignment : found)
      if (solution_.assignments.size() < count_)
        solution_.assignments.push_back(std::move(assignment));
  }

  /// States of the next variable that are left to try; the state with the lowest bound is last.
  struct Level {
    Node node;
    std::vector<std::pair<double, uint32_t>> states;
  };

  Level level_after(const Node& node) {
    Level level{node, {}};
    if (node.depth == elimination_.size()) return level;
    const std::vector<double> bounds = child_bounds(node);
    for (uint32_t s = 0; s < bounds.size(); ++s)
      if (std::isfinite(bounds[s])) level.states.emplace_back(bounds[s], s);
    std::sort(level.states.begin(), level.states.end(), std::greater<>());
    return level;
  }

  /// Completes a partial assignment greedily. Each further variable gets the state with the lowest
  /// bound, or the state with the next bound if no assignment of finite cost was found from there.
  /// nullopt after too many tries, or if there is no such assignment.
  std::optional<Assignment> complete(uint32_t index) {
    restore(index);
    visited_ = no_node;  // because states_ is changed below
    std::vector<Level> levels = {level_after(nodes_[index])};
    for (size_t tries = most_tries_per_variable * (elimination_.size() + 1);
         tries > 0 && !levels.empty(); --tries) {
      Level& last = levels.back();
      if (last.node.depth == elimination_.size())
        return Assignment{states_, network_.cost(states_)};
      if (last.states.empty()) {
        levels.pop_back();
        continue;
      }
      const auto [bound, state] = last.states.back();
      last.states.pop_back();
      const Node next{bound, last.node.depth + 1, no_node, state};
      states_[elimination_.variable(position(next.depth))] = state;
      levels.push_back(level_after(next));
    }
    return std::nullopt;
  }

  const CostNetwork& network_;
  const Elimination& elimination_;
  const size_t count_;
  const SolverLimits& limits_;
  Solution solution_;
  std::vector<size_t> states_;  // states of the node that was visited last
  uint32_t visited_ = no_node;
  std::vector<Node> nodes_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, IsLater> open_{IsLater{nodes_}};
};

/// Computes min-marginals by messages from the last bucket back to the first. The message to a
/// bucket is a table over the variables of the message that the bucket sent. For each combination
/// of their states it has the least cost of all tables outside of the bucket, without the tables of
/// buckets that sent messages to this bucket, directly or through others.
class BackwardPass {
 public:
  explicit BackwardPass(const Elimination& elimination)
      : elimination_(elimination), from_outside_(elimination.size()) {}

  std::vector<std::vector<double>> run() {
    std::vector<std::vector<double>> marginals(elimination_.size());
    for (size_t p = elimination_.size(); p-- > 0;) {
      const Bucket& bucket = elimination_.bucket(p);
      const CostTable& message = *bucket.messages.at(0);
      // The message of this bucket is a constant, so no table connects the bucket with the rest of
      // the network. The least cost of that rest is the total without the constant.
      if (message.variables.empty())
        from_outside_[p] = {{}, {}, {elimination_.lower_bound() - message.costs[0]}};
      std::vector<size_t> cluster = message.variables;
      cluster.push_back(elimination_.variable(p));
      marginals[elimination_.variable(p)] =
          minimum(p, nullptr, cluster, {elimination_.variable(p)}).costs;
      for (const size_t sender : bucket.senders) {
        const CostTable* received = elimination_.bucket(sender).messages.at(0);
        from_outside_[sender] = minimum(p, received, cluster, received->variables);
      }
    }
    return marginals;
  }

 private:
  /// Returns the sum of all tables of the bucket except `left_out`, minimized over those variables
  /// of `cluster` that are not in `kept`.
  CostTable minimum(size_t position, const CostTable* left_out, const std::vector<size_t>& cluster,
                    const std::vector<size_t>& kept) const {
    std::vector<const CostTable*> tables = {&from_outside_[position]};
    for (const CostTable* table : elimination_.bucket(position).tables)
      if (table != left_out) tables.push_back(table);
    std::vector<size_t> removed;
    for (const size_t v : cluster)
      if (std::find(kept.begin(), kept.end(), v) == kept.end()) removed.push_back(v);
    return minimized_sum(tables, kept, removed, elimination_.extents());
  }

  const Elimination& elimination_;
  // The message to each bucket, by position; its variables are those of the message that the bucket
  // sent.
  std::vector<CostTable> from_outside_;
};

}  // namespace

size_t CostNetwork::add_variable(std::vector<double> costs) {
  TW_CHECK(!costs.empty() && std::all_of(costs.begin(), costs.end(), is_cost));
  extents_.push_back(costs.size());
  tables_.push_back({{size() - 1}, {costs.size()}, std::move(costs)});
  return size() - 1;
}

void CostNetwork::add_factor(size_t a, size_t b, std::vector<double> costs) {
  add_factor({a, b}, std::move(costs));
}

void CostNetwork::add_factor(std::vector<size_t> variables, std::vector<double> costs) {
  CostTable table{std::move(variables), {}, std::move(costs)};
  size_t elements = 1;
  for (const size_t v : table.variables) {
    TW_CHECK(v < size() && std::count(table.variables.begin(), table.variables.end(), v) == 1);
    table.extents.push_back(extents_[v]);
    elements *= extents_[v];
  }
  TW_CHECK(!table.variables.empty() && table.costs.size() == elements);
  TW_CHECK(std::all_of(table.costs.begin(), table.costs.end(), is_cost));
  tables_.push_back(std::move(table));
}

double CostNetwork::cost(std::span<const size_t> states) const {
  TW_CHECK(states.size() == size());
  double sum = 0;
  for (const CostTable& table : tables_) sum += table.at(states);
  return sum;
}

Solution solve(const CostNetwork& network, size_t count, const SolverLimits& limits) {
  TW_CHECK(count >= 1);
  const Elimination elimination(network, limits);
  return BestFirstSearch(network, elimination, count, limits).run();
}

std::optional<std::vector<std::vector<double>>> min_marginals(const CostNetwork& network,
                                                              const SolverLimits& limits) {
  const Elimination elimination(network, limits);
  if (!elimination.is_exact()) return std::nullopt;
  if (std::isfinite(elimination.lower_bound())) return BackwardPass(elimination).run();
  std::vector<std::vector<double>> none;
  for (const size_t extent : network.extents()) none.emplace_back(extent, infinity);
  return none;
}

}  // namespace tw::graph
