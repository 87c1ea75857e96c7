// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <vector>

#include "dsl/expr.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Stage;

namespace {

int64_t count_reads(const Expr& body, const std::string& tensor) {
  int64_t count = 0;
  dsl::for_each(body, [&](const Expr& e) {
    const dsl::Read* r = e.as<dsl::Read>();
    count += r && r->tensor == tensor;
  });
  return count;
}

/// True if the expression has more nodes or levels than a declared expression may have. The code
/// that walks expressions is not designed for such sizes.
bool is_too_large(const Expr& body) {
  return body.node().size > dsl::largest_expression || body.node().height > dsl::tallest_expression;
}

}  // namespace

Status apply(Nest& nest, const Inline& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->stage.combine != Combine::None)
    return illegal(s.name, fmt::format("'{}' is a reduction", s.stage));
  if (nest.compute.is_output(s.stage))
    return illegal(s.name, fmt::format("'{}' is an output", s.stage));
  if (!is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  const Stage producer = stage->stage;
  const auto expand = [&](const dsl::Read& r) {
    dsl::Substitution arguments;
    for (size_t i = 0; i < producer.axes.size(); ++i)
      arguments[producer.axes[i].name] = r.indices[i];
    return dsl::substitute(producer.body, arguments);
  };
  const auto inline_into = [&](Stage& reader) -> Status {
    const int64_t copies = count_reads(reader.body, producer.name);
    if (copies == 0) return {};
    const bool fits = copies * producer.body.node().size <= dsl::largest_expression;
    if (fits) rewrite_reads(reader, producer.name, expand);
    if (fits && !is_too_large(reader.body)) return {};
    return illegal(
        s.name,
        fmt::format("the expression of '{}' would have more than {} nodes or {} "
                    "levels with {} of '{}' in it",
                    reader.name, dsl::largest_expression, dsl::tallest_expression,
                    copies == 1 ? "a copy" : fmt::format("{} copies", copies), producer.name));
  };
  // Readers are listed after the stages that they read, so the search begins at the inlined stage.
  // The stages before it may be many and large.
  for (StageNest* reader = stage; reader != nest.stages.data() + nest.stages.size(); ++reader) {
    TW_RETURN_IF_ERROR(inline_into(reader->stage));
    if (reader->epilogue) TW_RETURN_IF_ERROR(inline_into(*reader->epilogue));
  }
  const Stage* end = nest.compute.stages.data() + nest.compute.stages.size();
  for (Stage* reader = &definition(nest, producer.name); reader != end; ++reader)
    TW_RETURN_IF_ERROR(inline_into(*reader));
  erase_stage(nest, producer.name);
  std::erase_if(nest.compute.stages,
                [&](const Stage& other) { return other.name == producer.name; });
  return {};
}

}  // namespace tw::schedules
