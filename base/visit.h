// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exhaustive visits of variants. visit_each() requires a handler for every alternative of a variant
// and calls the handler of the alternative that the variant holds. When an alternative is added to
// the variant, each visit_each() of it fails to compile until it has a handler for the new one.
//
//   visit_each(stmt.value,
//              [&](const Loop& loop) { gather(*loop.body); },
//              [&](const If& branch) { gather(*branch.body); },
//              ignore<Assign, Barrier>);

#include <type_traits>
#include <utility>
#include <variant>

namespace tw {

/// A handler that does nothing for the alternatives `Named`.
template <typename... Named>
struct Ignore {
  template <typename T>
  requires(std::is_same_v<T, Named> || ...) void operator()(const T&) const {}
};
template <typename... Named>
inline constexpr Ignore<Named...> ignore;

/// A handler that returns `value` for the alternatives `Named`.
template <typename Value, typename... Named>
struct Always {
  Value value;
  template <typename T>
  requires(std::is_same_v<T, Named> || ...) Value operator()(const T&) const { return value; }
};
template <typename... Named, typename Value>
Always<Value, Named...> always(Value value) {
  return {std::move(value)};
}

/// Combines handlers into one callable for std::visit(). Unlike visit_each(), std::visit() accepts
/// a handler for any type:
///
///   std::visit(Overloaded{[](bool) { ... }, [](const auto& value) { ... }}, variant);
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

namespace internal {

struct NoAlternative {};

template <typename Variant, typename Handler>
inline constexpr bool handles_all = false;
template <typename... Alternatives, typename Handler>
inline constexpr bool handles_all<std::variant<Alternatives...>, Handler> =
    (std::is_invocable_v<Handler&, const Alternatives&> && ...);

}  // namespace internal

/// True if the handlers cover all alternatives of the variant and no handler accepts every type. A
/// handler like `[](const auto&)` would also accept alternatives that are added later.
template <typename Variant, typename... Handlers>
concept NamesAll = internal::handles_all<Variant, Overloaded<std::decay_t<Handlers>...>> &&
    (!std::is_invocable_v<Handlers&, const internal::NoAlternative&> && ...);

/// Calls the handler of the alternative that the variant holds, and returns the handler's result.
template <typename Variant, typename... Handlers>
requires NamesAll<Variant, Handlers...>
decltype(auto) visit_each(const Variant& variant, Handlers&&... handlers) {
  return std::visit(Overloaded<std::decay_t<Handlers>...>{std::forward<Handlers>(handlers)...},
                    variant);
}

}  // namespace tw
