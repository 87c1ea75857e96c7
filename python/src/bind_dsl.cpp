// SPDX-License-Identifier: Apache-2.0
// Binds dsl/: expressions, computes, named operators, workloads, and the interpreter.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/native_enum.h>
#include <pybind11/operators.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "dsl/compute.h"
#include "dsl/interpret.h"
#include "dsl/operators.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "python/src/argument.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using dsl::Axis;
using dsl::Compute;
using dsl::Expr;
using dsl::Position;
using dsl::Reduction;
using dsl::Tensor;
using dsl::Workload;

/// A tensor with its name and axes. A C++ caller keeps name and axes in variables. But a Python
/// function that tw.kernel calls gets only the tensor, so the tensor must have them.
struct DeclaredTensor {
  Tensor tensor;
  std::string name;
  std::vector<Axis> axes;
};

constexpr const char* reduction_inside =
    "a reduction is the whole body of a stage, and no operand: declare a stage of its own, as in "
    "s = tw.compute('s', [i], tw.sum(k, a[i, k])), and read s[i] in the expression";

std::string shown(const py::handle& value) {
  return py::repr(value).cast<std::string>().substr(0, 80);
}

/// Returns `value` as a Python int if it is an int or stands for one, such as np.int64(3); else
/// null.
py::object whole_of(const py::handle& value) {
  if (PyIndex_Check(value.ptr()) == 0) return {};
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (whole) return whole;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw py::error_already_set();
  PyErr_Clear();  // arrays of NumPy have __index__, but only those of one integer are numbers
  return {};
}

/// Returns the value of a Python int; nullopt if it does not fit into 64 bits.
std::optional<int64_t> int64_of(const py::object& whole) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  return overflow != 0 ? std::nullopt : std::optional(value);
}

/// True for a number of Python or NumPy that is no int, such as 0.5 and np.float32(2).
bool is_fraction(const py::handle& value) {
  return PyFloat_Check(value.ptr()) != 0 ||
         (PyIndex_Check(value.ptr()) == 0 &&
          py::isinstance(value, py::module_::import("numbers").attr("Real")));
}

/// Converts `given`, one axis or a sequence of axes, to a list. For error messages, `argument` is
/// the name of the argument, and `name` that of the called function or tensor.
std::vector<Axis> axes_of(const std::string& name, const char* argument, const py::object& given) {
  if (py::isinstance<Axis>(given)) return {given.cast<Axis>()};
  std::vector<Axis> axes;
  if (!py::isinstance<py::sequence>(given))
    throw py::type_error(
        fmt::format("{}: {}: expected axes, not {}", name, argument, shown(given)));
  for (const py::handle axis : given.cast<py::sequence>()) {
    if (!py::isinstance<Axis>(axis))
      throw py::type_error(fmt::format("{}: {}: expected axes, such as tw.Axis('i', 64), not {}",
                                       name, argument, shown(axis)));
    axes.push_back(axis.cast<Axis>());
  }
  return axes;
}

/// Makes an axis. If `extent` is None or -1, the axis gets its extent later, from an argument of
/// workload(). Raises TypeError or UsageError for a wrong argument; the message names the argument.
Axis axis_of(const Argument<std::string>& name, const Argument<std::optional<int64_t>>& extent) {
  if (!py::isinstance<py::str>(name))
    throw py::type_error(
        fmt::format("Axis({}): expected a name, as in Axis('i', 64)", shown(name)));
  const auto text = name.cast<std::string>();
  if (extent.is_none()) return Axis(text);
  const auto expected = [&] {
    return fmt::format(
        "Axis('{}'): the extent is {}; expected a whole number from 0 on, or none "
        "where workload() gives it later",
        text, shown(extent));
  };
  const py::object whole = whole_of(extent);
  if (!whole || PyBool_Check(extent.ptr()) != 0) throw py::type_error(expected());
  const auto value = int64_of(whole);
  if (!value || *value < -1) raise({ErrorCode::Usage, expected()});
  return Axis(text, *value);
}

bool is_expression(const py::handle& value) {
  return py::isinstance<Expr>(value) || py::isinstance<Axis>(value);
}

/// Returns the expression unchanged. Raises InvalidError if it is too deep or too large for
/// recursive functions. Every expression that Python gets passes through this function, so printing
/// and deleting it cannot overflow the stack.
Expr bounded(Expr expr) {
  value_of(dsl::check_size(expr));
  return expr;
}

/// Returns the type of a Python number that has no typed operand beside it: Float32 for a float,
/// else Int64. The text form of expressions has the same rule.
DType own_type(const py::handle& literal) { return is_fraction(literal) ? Float32 : Int64; }

/// Returns the common type of two literals: Float32 if one of them is a float, else Int64.
DType wider_type(const py::handle& a, const py::handle& b) {
  return own_type(a) == Float32 ? Float32 : own_type(b);
}

/// Returns the two operands as expressions. A literal gets the type of the other operand.
std::pair<Expr, Expr> operands_of(const py::handle& a, const py::handle& b) {
  if (is_expression(a)) {
    const Expr left = expr_of(a, Int64);
    return {left, expr_of(b, left.type())};
  }
  const Expr right = expr_of(b, is_expression(b) ? Int64 : wider_type(a, b));
  return {expr_of(a, right.type()), right};
}

/// Raises TypeError for max(j, body) and min(j, body) with an axis j. The user probably means a
/// reduction over j, so the message names max_over() or min_over().
void refuse_axes_of_extremes(dsl::BinaryOp op, const py::handle& a, const py::handle& b) {
  if (op != dsl::BinaryOp::Min && op != dsl::BinaryOp::Max) return;
  const bool is_axis =
      py::isinstance<Axis>(a) && py::isinstance<Expr>(b) && b.cast<const Expr&>().type() != Int64;
  const bool is_sequence = py::isinstance<py::tuple>(a) || py::isinstance<py::list>(a);
  if (is_axis || is_sequence)
    throw py::type_error(
        fmt::format("{0}({1}, ...) has an axis as an operand: {0}_over() is the "
                    "reduction over axes, and {0}(a, b) compares two values",
                    to_string(op), shown(a)));
}

/// Makes a binary operation. Raises TypeError if the operation is not defined for the types of its
/// operands.
Expr checked_binary(dsl::BinaryOp op, const py::handle& a, const py::handle& b) {
  refuse_axes_of_extremes(op, a, b);
  const auto [left, right] = operands_of(a, b);
  if (left.type() != right.type())
    throw py::type_error(fmt::format("{} of {} and {}: expected operands of one type; use cast()",
                                     to_string(op), to_string(left.type()),
                                     to_string(right.type())));
  if (const auto wrong = type_error(op, left.type())) throw py::type_error(*wrong);
  return bounded(binary(op, left, right));
}

Expr checked_unary(dsl::UnaryOp op, const py::handle& a) {
  const Expr operand = expr_of(a, Float32);
  if (const auto wrong = type_error(op, operand.type())) throw py::type_error(*wrong);
  return bounded(unary(op, operand));
}

template <dsl::BinaryOp op>
Expr forward(const py::object& self, const py::object& other) {
  return checked_binary(op, self, other);
}
template <dsl::BinaryOp op>
Expr backward(const py::object& self, const py::object& other) {
  return checked_binary(op, other, self);
}
template <dsl::UnaryOp op>
Expr single(const py::object& self) {
  return checked_unary(op, self);
}

/// Defines one of & | ^. On truth values it is the operation `logical` (and, or, not equal); on
/// integers it is the operation `bits`.
template <dsl::BinaryOp logical, dsl::BinaryOp bits>
Expr bits_or_logic(const py::object& self, const py::object& other) {
  const bool is_logic = operands_of(self, other).first.type() == Bool;
  return checked_binary(is_logic ? logical : bits, self, other);
}
template <dsl::BinaryOp logical, dsl::BinaryOp bits>
Expr bits_or_logic_backward(const py::object& self, const py::object& other) {
  return bits_or_logic<logical, bits>(other, self);
}

/// Defines the operator ~. It inverts all bits of an integer, and negates a truth value.
Expr inverted(const py::object& self) {
  const Expr operand = expr_of(self, Bool);
  if (operand.type() == Bool || is_float(operand.type()))
    return checked_unary(dsl::UnaryOp::Not, self);
  return bounded(operand ^ dsl::constant_int(operand.type(), -1));
}

/// Defines the Python operators of a class. On truth values, & | ~ replace `and`, `or` and `not`,
/// which Python does not let a class define; Halide and NumPy do the same.
template <typename Class>
void bind_operators(Class& type) {
  using enum dsl::BinaryOp;
  type.def("__add__", forward<Add>, py::is_operator())
      .def("__radd__", backward<Add>, py::is_operator())
      .def("__sub__", forward<Sub>, py::is_operator())
      .def("__rsub__", backward<Sub>, py::is_operator())
      .def("__mul__", forward<Mul>, py::is_operator())
      .def("__rmul__", backward<Mul>, py::is_operator())
      .def("__mod__", forward<Mod>, py::is_operator())
      .def("__rmod__", backward<Mod>, py::is_operator())
      .def("__lt__", forward<Lt>, py::is_operator())
      .def("__le__", forward<Le>, py::is_operator())
      .def("__gt__", backward<Lt>, py::is_operator())
      .def("__ge__", backward<Le>, py::is_operator())
      .def("__eq__", forward<Eq>, py::is_operator())
      .def("__ne__", forward<Ne>, py::is_operator())
      .def("__pow__", forward<Pow>, py::is_operator())
      .def("__rpow__", backward<Pow>, py::is_operator())
      .def("__lshift__", forward<Shl>, py::is_operator())
      .def("__rlshift__", backward<Shl>, py::is_operator())
      .def("__rshift__", forward<Shr>, py::is_operator())
      .def("__rrshift__", backward<Shr>, py::is_operator())
      .def("__and__", bits_or_logic<And, BitAnd>, py::is_operator())
      .def("__rand__", bits_or_logic_backward<And, BitAnd>, py::is_operator())
      .def("__or__", bits_or_logic<Or, BitOr>, py::is_operator())
      .def("__ror__", bits_or_logic_backward<Or, BitOr>, py::is_operator())
      .def("__xor__", bits_or_logic<Ne, BitXor>, py::is_operator())
      .def("__rxor__", bits_or_logic_backward<Ne, BitXor>, py::is_operator())
      .def("__neg__", single<dsl::UnaryOp::Neg>)
      .def("__invert__", inverted)
      .def("__abs__", single<dsl::UnaryOp::Abs>)
      .def("__round__", single<dsl::UnaryOp::Round>);
  // Floats are divided by /, and integers by //, which rounds towards minus infinity like Python's
  // own //.
  const auto divided = [](const py::object& a, const py::object& b, bool floats) {
    const auto [left, right] = operands_of(a, b);
    if (is_float(left.type()) != floats)
      throw py::type_error(fmt::format("{} of {}: {} are divided by {}", floats ? "/" : "//",
                                       to_string(left.type()), floats ? "integers" : "floats",
                                       floats ? "//" : "/"));
    return checked_binary(Div, a, b);
  };
  type.def("__truediv__",
           [=](const py::object& a, const py::object& b) { return divided(a, b, true); })
      .def("__rtruediv__",
           [=](const py::object& a, const py::object& b) { return divided(b, a, true); })
      .def("__floordiv__",
           [=](const py::object& a, const py::object& b) { return divided(a, b, false); })
      .def("__rfloordiv__",
           [=](const py::object& a, const py::object& b) { return divided(b, a, false); })
      .def("__bool__", [](const py::object&) -> bool {
        throw py::type_error(
            "an expression has no truth value while it is declared: use select(), &, | and ~");
      });
  type.attr("__hash__") = py::none();
}

void bind_expressions(py::module_& m) {
  py::class_<Expr> expr(m, "Expr",
                        "An immutable expression. Operands of an operation have the same type; a "
                        "number takes the type of the other operand.");
  expr.def_property_readonly("type", &Expr::type)
      .def("__str__", [](const Expr& e) { return dsl::to_string(e); })
      .def("__repr__", [](const Expr& e) {
        return fmt::format("<Expr {}: {}>", to_string(e.type()), dsl::to_string(e));
      });
  bind_operators(expr);

  py::class_<Axis> axis(m, "Axis", "A named index that runs over [0, extent).");
  axis.def(py::init(&axis_of), "name"_a, "extent"_a = py::none())
      .def_readonly("name", &Axis::name)
      .def_readonly("extent", &Axis::extent, "number of values; -1: workload() gets it later")
      .def("__repr__", [](const Axis& a) {
        return a.extent < 0 ? fmt::format("Axis('{}')", a.name)
                            : fmt::format("Axis('{}', {})", a.name, a.extent);
      });
  bind_operators(axis);
  py::implicitly_convertible<Axis, Expr>();

  using enum dsl::UnaryOp;
  m.def("abs", single<Abs>, "a"_a);
  m.def("exp", single<Exp>, "a"_a);
  m.def("log", single<Log>, "a"_a);
  m.def("sqrt", single<Sqrt>, "a"_a);
  m.def("tanh", single<Tanh>, "a"_a);
  m.def("erf", single<Erf>, "a"_a);
  m.def("floor", single<Floor>, "a"_a);
  m.def("sin", single<Sin>, "a"_a);
  m.def("cos", single<Cos>, "a"_a);
  m.def("sigmoid", single<Sigmoid>, "a"_a, "1 / (1 + exp(-a))");
  m.def("round", single<Round>, "a"_a, "The nearest whole number; halves to the even one.");
  m.def("pow", forward<dsl::BinaryOp::Pow>, "a"_a, "exponent"_a, "a ** exponent of floats.");
  m.attr("pi") = std::numbers::pi;
  m.def("min", forward<dsl::BinaryOp::Min>, "a"_a, "b"_a,
        "The smaller operand; of a NaN and a number, the number.");
  m.def("max", forward<dsl::BinaryOp::Max>, "a"_a, "b"_a,
        "The larger operand; of a NaN and a number, the number.");
  m.def(
      "clamp",
      [](const py::object& a, const py::object& low, const py::object& high) {
        return checked_binary(dsl::BinaryOp::Min,
                              py::cast(checked_binary(dsl::BinaryOp::Max, a, low)), high);
      },
      "a"_a, "low"_a, "high"_a);
  m.def(
      "select",
      [](const py::object& condition, const py::object& a, const py::object& b) {
        const Expr choice = expr_of(condition, Bool);
        const auto [left, right] = operands_of(a, b);
        if (choice.type() != Bool || left.type() != right.type())
          throw py::type_error(fmt::format(
              "select({}, {}, {}): expected a condition and two "
              "values of one type",
              to_string(choice.type()), to_string(left.type()), to_string(right.type())));
        return bounded(dsl::select(choice, left, right));
      },
      "condition"_a, "a"_a, "b"_a,
      "a where the condition holds, else b; only that one is evaluated.");
  m.def(
      "cast",
      [](const py::object& type, const py::object& a) {
        if (is_expression(type))
          throw py::type_error(fmt::format(
              "cast({}, {}): the type stands first, as in cast('f32', x)", shown(type), shown(a)));
        return bounded(dsl::cast(dtype_of(type), expr_of(a, dtype_of(type))));
      },
      "type"_a, "a"_a, "Converts `a` to the type: cast('f32', x).");
  m.def("var", &dsl::var, "name"_a);
  m.def(
      "constant",
      [](const py::object& type, const py::object& value) {
        return expr_of(value, dtype_of(type));
      },
      "type"_a, "value"_a);
}

using ExprArgument = Argument<py::typing::Union<Expr, Axis, py::float_>>;
using BodyArgument = Argument<py::typing::Union<Expr, Axis, Reduction, Position, py::float_>>;

/// Defines operators that only raise a TypeError. They are for reductions, which cannot be operands
/// of an expression.
template <typename Class>
void refuse_operators(Class& type) {
  for (const char* name :
       {"__add__",     "__radd__",     "__sub__",      "__rsub__",      "__mul__", "__rmul__",
        "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__",
        "__pow__",     "__rpow__",     "__lshift__",   "__rshift__",    "__and__", "__rand__",
        "__or__",      "__ror__",      "__xor__",      "__rxor__",      "__neg__", "__lt__",
        "__le__",      "__gt__",       "__ge__"})
    type.attr(name) =
        py::cpp_function([](const py::args&) { throw py::type_error(reduction_inside); },
                         py::name(name), py::is_method(type));
}

DeclaredTensor computed(const std::string& name, const py::object& given, const BodyArgument& body,
                        const std::string& letters) {
  const std::vector<Axis> axes = axes_of(name, "axes", given);
  const auto declared = [&](const auto& value) {
    return DeclaredTensor{dsl::compute(name, axes, value, letters), name, axes};
  };
  if (py::isinstance<Reduction>(body)) return declared(body.cast<const Reduction&>());
  if (py::isinstance<Position>(body)) return declared(body.cast<const Position&>());
  if (py::isinstance<DeclaredTensor>(body))
    throw py::type_error(
        fmt::format("{}: body: expected an expression, and {} is a tensor: read "
                    "an element of it, as in t[i, j]",
                    name, shown(body)));
  return declared(expr_of(body, own_type(body)));
}

void bind_declarations(py::module_& m) {
  py::class_<DeclaredTensor>(m, "Tensor", "A declared tensor; t[i, j] reads an element.")
      .def_readonly("name", &DeclaredTensor::name)
      .def_readonly("axes", &DeclaredTensor::axes,
                    "axes over which the tensor was declared, outermost first")
      .def_property_readonly("shape",
                             [](const DeclaredTensor& t) {
                               std::vector<int64_t> extents;
                               for (const Axis& axis : t.axes) extents.push_back(axis.extent);
                               return py::typing::Tuple<int, py::ellipsis>(py::cast(extents));
                             })
      .def("__repr__",
           [](const DeclaredTensor& t) {
             std::vector<std::string> axes;
             for (const Axis& axis : t.axes)
               axes.push_back(fmt::format("{}={}", axis.name, axis.extent));
             return fmt::format("<Tensor {}[{}]>", t.name, fmt::join(axes, ", "));
           })
      .def("__getitem__",
           [](const DeclaredTensor& t, const py::object& given) {
             const py::tuple indices =
                 py::isinstance<py::tuple>(given) ? given.cast<py::tuple>() : py::make_tuple(given);
             std::vector<Expr> at;
             for (const py::handle index : indices) at.push_back(expr_of(index, Int64));
             return bounded(t.tensor.read_at(std::move(at)));
           })
      .def("__iter__", [](const DeclaredTensor&) -> py::typing::Iterator<Expr> {
        throw py::type_error("a declared tensor holds no elements: read one as t[i, j]");
      });
  py::class_<Reduction> reduced(m, "Reduction",
                                "The body of a stage that reduces: sum(k, a[m, k] * b[k, n]).");
  refuse_operators(reduced);
  py::class_<Position> position_type(
      m, "Position", "The body of a stage that finds an index: argmax(j, a[i, j]).");
  refuse_operators(position_type);

  const auto reduction = [&](const char* name, Reduction (*reduce)(std::vector<Axis>, Expr),
                             Reduction (*scan)(Expr, Expr), const char* what) {
    m.def(
        name,
        [reduce, scan, name](const py::object& axes, const ExprArgument& body) {
          const Expr term = expr_of(body, own_type(body));
          if (py::isinstance<Expr>(axes)) return scan(axes.cast<Expr>(), term);
          return reduce(axes_of(name, "axes", axes), term);
        },
        "axes"_a, "body"_a,
        fmt::format("The {} over one axis or several. If `axes` is k <= j with an axis j of the "
                    "stage, it is a scan: the {} for all k up to j, or below j if `axes` is k < j.",
                    what, what)
            .c_str());
  };
  reduction("sum", &dsl::sum, &dsl::sum, "sum of body");
  reduction("prod", &dsl::prod, &dsl::prod, "product of body");
  reduction("max_over", &dsl::max_over, &dsl::max_over, "largest body");
  reduction("min_over", &dsl::min_over, &dsl::min_over, "smallest body");
  const auto position = [&](const char* name, Position (*make)(Axis, Expr), const char* doc) {
    m.def(
        name,
        [make, name](const Axis& axis, const ExprArgument& given) {
          const Expr body = expr_of(given, own_type(given));
          if (axis.extent == 0)
            throw py::value_error(fmt::format("{} over '{}', which is empty", name, axis.name));
          return make(axis, body);
        },
        "axis"_a, "body"_a, doc);
  };
  position(
      "argmax", &dsl::argmax,
      "The index along the axis at which body is largest: that of the first NaN, or else of the "
      "first of equal elements.");
  position(
      "argmin", &dsl::argmin,
      "The index along the axis at which body is smallest: that of the first NaN, or else of the "
      "first of equal elements.");

  const auto source =
      [&](const char* function,
          Tensor (*make)(const std::string&, DType, const std::vector<Axis>&, const std::string&),
          const char* doc) {
        m.def(
            function,
            [make](const std::string& name, const py::object& type, const py::object& shape,
                   const std::string& letters) {
              const std::vector<Axis> axes = axes_of(name, "shape", shape);
              return DeclaredTensor{make(name, dtype_of(type), axes, letters), name, axes};
            },
            "name"_a, "type"_a, "shape"_a, "letters"_a = "", doc);
      };
  source(
      "input", &dsl::input,
      "Declares an array that each call passes. `letters` name its dimensions in layouts: 'NCHW'.");
  source("weight", &dsl::weight,
         "Declares an input that is known ahead of the calls, so that it may be packed once.");
  m.def("compute", &computed, "name"_a, "axes"_a, "body"_a, "letters"_a = "",
        "Defines a tensor: one element for each index of the axes. The body is an expression of "
        "these axes, a reduction (sum, prod, max_over, min_over) or an index (argmax, argmin).");
}

using ArraysByName = py::typing::Dict<py::str, py::array>;

ArraysByName interpret_arrays(const Compute& compute, const ArraysByName& inputs) {
  dsl::Arrays arrays;
  for (const dsl::Input& input : compute.inputs) {
    if (!inputs.contains(input.name))
      raise({ErrorCode::Usage, fmt::format("[interpret] input '{}' is missing", input.name)});
    arrays.emplace(input.name,
                   copied_array(inputs[input.name.c_str()], input.name, input.type, input.shape));
  }
  Result<dsl::Arrays> outputs = [&] {
    const WithoutGil released;
    return dsl::interpret(compute, arrays);
  }();
  ArraysByName result;
  for (const auto& [name, array] : value_of(std::move(outputs)))
    result[name.c_str()] = numpy_array(array);
  return result;
}

void bind_computes(py::module_& m) {
  py::class_<Compute>(
      m, "Compute",
      "Inputs, and stages that define tensors. str() is its text form (docs/expressions.md).")
      .def("__str__", [](const Compute& c) { return dsl::to_text(c); })
      .def("__repr__",
           [](const Compute& c) { return fmt::format("<Compute {}>", dsl::to_line(c)); })
      .def(
          "__eq__",
          [](const Compute& a, const Compute& b) { return dsl::to_line(a) == dsl::to_line(b); },
          py::is_operator())
      .def("__hash__", [](const Compute& c) { return py::hash(py::str(dsl::to_line(c))); })
      .def_property_readonly("inputs",
                             [](const Compute& c) {
                               std::vector<std::string> names;
                               for (const dsl::Input& input : c.inputs) names.push_back(input.name);
                               return names;
                             })
      .def_readonly("outputs", &Compute::outputs)
      .def(
          "shape_of",
          [](const Compute& c, const std::string& tensor) {
            if (c.find_input(tensor) == nullptr && c.find_stage(tensor) == nullptr)
              throw py::key_error(tensor);
            return c.shape_of(tensor);
          },
          "tensor"_a)
      .def(
          "type_of",
          [](const Compute& c, const std::string& tensor) {
            if (c.find_input(tensor) == nullptr && c.find_stage(tensor) == nullptr)
              throw py::key_error(tensor);
            return c.type_of(tensor);
          },
          "tensor"_a);
  m.def(
      "parse_compute", [](const std::string& text) { return value_of(dsl::parse_compute(text)); },
      "text"_a);
  m.def("count_flops", &dsl::count_flops, "compute"_a);
  m.def("interpret", &interpret_arrays, "compute"_a, "inputs"_a,
        "Evaluates the definition of the compute, slowly and in double, and returns the outputs by "
        "name. `inputs` maps names to arrays.");
}

using Extents = std::map<std::string, int64_t>;

/// Converts a declared tensor, or a sequence of declared tensors, to a list.
std::vector<DeclaredTensor> declared_outputs(const py::object& given) {
  if (py::isinstance<DeclaredTensor>(given)) return {given.cast<DeclaredTensor>()};
  if (!py::isinstance<py::sequence>(given) || py::isinstance<py::str>(given))
    raise({ErrorCode::Usage, fmt::format("[workload] outputs: expected a tensor of compute(), "
                                         "several, or a Compute, not {}",
                                         shown(given))});
  std::vector<DeclaredTensor> outputs;
  for (const py::handle output : given.cast<py::sequence>()) {
    if (!py::isinstance<DeclaredTensor>(output))
      raise({ErrorCode::Usage,
             fmt::format("[workload] outputs: expected tensors of compute(), not {}",
                         shown(output))});
    outputs.push_back(output.cast<DeclaredTensor>());
  }
  return outputs;
}

dsl::Attributes attributes_of(const std::string& op, const py::dict& given) {
  dsl::Attributes attributes;
  for (const auto& [name, value] : given) {
    const auto expected = [&](const char* what) -> Error {
      return {ErrorCode::Usage, fmt::format("[{}] {}: expected {}, not {}", op,
                                            name.cast<std::string>(), what, shown(value))};
    };
    const py::object whole = whole_of(value);
    if (!whole) raise(expected("a whole number"));
    const auto number = int64_of(whole);
    if (!number) raise(expected("a number of 64 bits"));
    attributes[name.cast<std::string>()] = *number;
  }
  return attributes;
}

Workload workload_of(const py::object& given, const Extents& extents, const std::string& accuracy) {
  const dsl::Accuracy exact = value_of(dsl::parse_accuracy(accuracy));
  if (py::isinstance<Compute>(given)) return value_of(dsl::workload(given.cast<Compute>(), exact));
  std::vector<std::pair<Axis, int64_t>> bound;
  for (const auto& [name, extent] : extents) bound.emplace_back(Axis(name), extent);
  const auto declared = declared_outputs(given);
  std::vector<Tensor> outputs;
  for (const DeclaredTensor& output : declared) outputs.push_back(output.tensor);
  return value_of(dsl::workload(outputs, bound, exact));
}

void bind_workloads(py::module_& m) {
  py::class_<Workload>(
      m, "Workload",
      "A kernel to tune: an operator with its attributes, or an expression; a data type; accuracy.")
      .def_readonly("op", &Workload::op)
      .def_readonly("attributes", &Workload::attributes)
      .def_readonly("dtype", &Workload::dtype)
      .def_readonly("compute", &Workload::compute)
      .def_readonly("layouts", &Workload::layouts)
      .def_property_readonly("key", &Workload::key, "the canonical text of what is computed")
      .def_property_readonly("hash", &Workload::hash)
      .def(
          "with_layouts",
          [](const Workload& w, const dsl::Layouts& layouts) {
            return value_of(dsl::with_layouts(w, layouts));
          },
          "layouts"_a,
          "The workload whose caller keeps these tensors in these layouts: {'in': 'NCHW16c'}.")
      .def("__str__", &Workload::text)
      .def("__repr__", [](const Workload& w) { return fmt::format("<Workload {}>", w.text()); })
      .def(
          "__eq__", [](const Workload& a, const Workload& b) { return a.text() == b.text(); },
          py::is_operator())
      .def("__hash__", [](const Workload& w) { return py::hash(py::str(w.text())); });
  m.def(
      "workload", &workload_of, "outputs"_a, "extents"_a = Extents(), "accuracy"_a = "fast",
      "Makes a workload of a declared tensor, of several tensors, or of a Compute. `extents` maps "
      "the names of axes that were declared without an extent to their extents.");
  m.def(
      "make_workload",
      [](const std::string& op, const py::object& dtype, const std::string& accuracy,
         const py::KWArgs<py::int_>& attributes) {
        return value_of(dsl::make_workload(op, attributes_of(op, attributes), dtype_of(dtype),
                                           value_of(dsl::parse_accuracy(accuracy))));
      },
      "op"_a, py::kw_only(), "dtype"_a = "f32", "accuracy"_a = "fast",
      "Makes the workload of a named operator: make_workload('dense', m=128, n=768, k=768).");
  m.def(
      "parse_shape",
      [](const std::string& text, const std::string& op) {
        return value_of(dsl::parse_shape(text, op));
      },
      "text"_a, "op"_a = "conv2d",
      "Parses attributes in the form of the command line: make_workload('conv2d', "
      "**parse_shape('n1c64h56w56k64r3s3p1')).");
  m.def(
      "parse_workload", [](const std::string& text) { return value_of(dsl::parse_workload(text)); },
      "text"_a,
      "Makes a workload of a key (Workload.key), of an operator's name and attributes ('dense "
      "m=128 n=768 k=768'), or of declarations (docs/expressions.md).");
  m.def(
      "operators",
      [] {
        py::typing::Dict<py::str, py::str> names;
        for (const dsl::Operator& op : dsl::operators())
          names[py::str(std::string(op.name))] = std::string(op.summary);
        return names;
      },
      "The operators that are known by name: a dict from the name to what the operator computes.");
}

void bind_dtypes(py::module_& m) {
  py::native_enum<DType> types(m, "DType", "enum.Enum", "Element types of tensors.");
#define X(enumerator, ...) types.value(#enumerator, DType::enumerator);
  TW_DTYPES(X)
#undef X
  types.export_values().finalize();
}

/// Throws ValueError if `fits` is false. The text form of expressions refuses the same literals.
void check_fits(bool fits, const py::handle& literal, DType type) {
  if (!fits)
    throw py::value_error(fmt::format("{} does not fit into {}", shown(literal), to_string(type)));
}

/// Returns the number as a literal of a float type.
Expr float_literal(const py::handle& number, DType type) {
  const double value = PyFloat_AsDouble(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
    PyErr_Clear();
    check_fits(false, number, type);
  }
  check_fits(std::isinf(value) || !std::isinf(round_to(type, value)), number, type);
  return dsl::constant(type, value);
}

/// Returns the Python int `whole` as a literal of an integer type or of bool.
Expr int_literal(const py::object& whole, DType type) {
  const auto value = int64_of(whole);
  check_fits(value && wrap_to(type, *value) == *value, whole, type);
  return dsl::constant_int(type, *value);
}

}  // namespace

Expr expr_of(const py::handle& value, DType type) {
  if (py::isinstance<Expr>(value)) return value.cast<Expr>();
  if (py::isinstance<Axis>(value)) return Expr(value.cast<Axis>());
  if (py::isinstance<py::bool_>(value)) {
    if (type != Bool)
      throw py::type_error(fmt::format("a truth value where {} is expected", to_string(type)));
    return dsl::constant_int(Bool, value.cast<bool>() ? 1 : 0);
  }
  const py::object whole = whole_of(value);
  if (is_float(type) && (whole || is_fraction(value)))
    return float_literal(whole ? whole : value, type);
  if (whole) return int_literal(whole, type);
  if (py::isinstance<Reduction>(value) || py::isinstance<Position>(value))
    throw py::type_error(reduction_inside);
  throw py::type_error(fmt::format("expected an expression of {}, not {}", to_string(type),
                                   py::repr(value).cast<std::string>()));
}

void bind_dsl(py::module_& m) {
  bind_dtypes(m);
  bind_expressions(m);
  bind_declarations(m);
  bind_computes(m);
  bind_workloads(m);
}

}  // namespace tw::python
