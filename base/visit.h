// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exhaustive visits of closed sets, which are variants: a visit has a handler for every alternative
// by name, so a new alternative does not compile until each walker says what it means there.
//
//   visit_each(stmt.value,
//              [&](const Loop& loop) { gather(*loop.body); },
//              [&](const If& branch) { gather(*branch.body); },
//              ignore<Assign, Barrier>);

#include <type_traits>
#include <utility>
#include <variant>

namespace tw {

/// A handler that does nothing for the alternatives that it names.
template <typename... Named>
struct Ignore {
  template <typename T>
  requires(std::is_same_v<T, Named> || ...) void operator()(const T&) const {}
};
template <typename... Named>
inline constexpr Ignore<Named...> ignore;

/// A handler that returns one value for the alternatives that it names.
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

/// One handler of several; for a visit with handlers for any type, which visit_each() refuses:
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

/// The handlers are for all alternatives of the variant, and none of them is for any type, as
/// `[](const auto&)` is.
template <typename Variant, typename... Handlers>
concept NamesAll = internal::handles_all<Variant, Overloaded<std::decay_t<Handlers>...>> &&
    (!std::is_invocable_v<Handlers&, const internal::NoAlternative&> && ...);

/// Calls the handler of the variant's alternative and returns what it returns.
template <typename Variant, typename... Handlers>
requires NamesAll<Variant, Handlers...>
decltype(auto) visit_each(const Variant& variant, Handlers&&... handlers) {
  return std::visit(Overloaded<std::decay_t<Handlers>...>{std::forward<Handlers>(handlers)...},
                    variant);
}

}  // namespace tw
