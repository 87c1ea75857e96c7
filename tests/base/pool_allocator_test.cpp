// SPDX-License-Identifier: Apache-2.0
#include "base/pool_allocator.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tw {
namespace {

using Node = std::pair<std::string, int>;

std::shared_ptr<const Node> make_node(int i) {
  return std::allocate_shared<const Node>(PoolAllocator<Node>(), std::to_string(i), i);
}

TEST(PoolAllocator, NodesThatLiveAtOnceAreApart) {
  std::vector<std::shared_ptr<const Node>> nodes;
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back(make_node(i));
    if (i % 3 == 0) nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2));
  }
  std::set<const Node*> places;
  for (const auto& node : nodes) {
    EXPECT_EQ(node->first, std::to_string(node->second));
    places.insert(node.get());
  }
  EXPECT_EQ(places.size(), nodes.size());
}

// One thread makes nodes, another frees them and ends, and a third uses their memory again.
TEST(PoolAllocator, NodesMoveBetweenThreads) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<const Node>> nodes;
    std::thread([&] {
      for (int i = 0; i < 500; ++i) nodes.push_back(make_node(i));
    }).join();
    std::thread([&] { nodes.resize(250); }).join();
    for (int i = 250; i < 750; ++i) nodes.push_back(make_node(i));
    for (int i = 0; i < 750; ++i) EXPECT_EQ(nodes[static_cast<size_t>(i)]->second, i);
  }
}

}  // namespace
}  // namespace tw
