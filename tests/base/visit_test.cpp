// SPDX-License-Identifier: Apache-2.0
#include "base/visit.h"

#include <gtest/gtest.h>

#include <string>

namespace tw {
namespace {

struct Circle {
  int radius = 0;
};
struct Square {
  int side = 0;
};
struct Point {};
using Shape = std::variant<Circle, Square, Point>;

int size_of_shape(const Shape& shape) {
  return visit_each(
      shape, [](const Circle& c) { return 2 * c.radius; }, [](const Square& s) { return s.side; },
      always<Point>(0));
}

TEST(Visit, CallsTheHandlerOfTheAlternative) {
  EXPECT_EQ(size_of_shape(Circle{3}), 6);
  EXPECT_EQ(size_of_shape(Square{3}), 3);
  EXPECT_EQ(size_of_shape(Point{}), 0);
  int circles = 0;
  for (const Shape& shape : {Shape(Circle{1}), Shape(Square{2}), Shape(Point{}), Shape(Circle{})})
    visit_each(
        shape, [&](const Circle&) { ++circles; }, ignore<Square, Point>);
  EXPECT_EQ(circles, 2);
}

// Incomplete sets of handlers do not compile.
TEST(Visit, NeedsAHandlerForEachAlternativeByName) {
  const auto circle = [](const Circle&) {};
  const auto square = [](const Square&) {};
  const auto point = [](const Point&) {};
  const auto any = [](const auto&) {};
  using C = decltype(circle);
  using S = decltype(square);
  using P = decltype(point);
  using A = decltype(any);
  static_assert(NamesAll<Shape, C, S, P>);
  static_assert(NamesAll<Shape, C, Ignore<Square, Point>>);
  static_assert(!NamesAll<Shape, C, S>, "a point is not named");
  static_assert(!NamesAll<Shape, C, Ignore<Square>>, "a point is not named");
  static_assert(!NamesAll<Shape, C, S, A>, "a point is not named");
  static_assert(!NamesAll<Shape, C, S, P, A>, "one handler is for any type");
}

}  // namespace
}  // namespace tw
