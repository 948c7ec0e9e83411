#include <cmath>

#include "cases.hpp"

namespace tessera::testing {
namespace {

void add_pointwise(Cases& cases, const Shape& shape) {
  const std::string name = shape.text();
  const auto x = [&] { return cases.random(shape, -3, 3); };
  cases.add(name, AddArgs{}, {x(), x(), Operand::result()});
  cases.add(name + " in a", AddArgs{}, {x(), x(), Operand::alias(0)});
  cases.add(name + " in b", AddArgs{}, {x(), x(), Operand::alias(1)});
  cases.add(name, MultiplyArgs{}, {x(), x(), Operand::result()});
  cases.add(name + " in a", MultiplyArgs{}, {x(), x(), Operand::alias(0)});
  cases.add(name + " in b", MultiplyArgs{}, {x(), x(), Operand::alias(1)});
  ScaleArgs scale;
  scale.factor = -0.375;
  cases.add(name, scale, {x(), Operand::result()});
  cases.add(name + " in place", scale, {x(), Operand::alias(0)});
  const auto wide = [&] { return cases.random(shape, -8, 8); };
  cases.add(name, GeluArgs{}, {wide(), Operand::result()});
  cases.add(name, GeluBackwardArgs{}, {x(), wide(), Operand::result()});
  cases.add(name + " in place", GeluBackwardArgs{}, {x(), wide(), Operand::alias(0)});
}

template <class Forward, class Backward>
void add_tails(Cases& cases, Forward forward, Backward backward) {
  const std::vector<double> tails = {-100, -20, -10, -5, -1e-6, 0, 1e-6, 5, 10, 20, 100};
  const std::vector<double> ones(tails.size(), 1);
  const auto given = [&](const std::vector<double>& values) {
    return Operand::given({static_cast<i64>(values.size())}, cases.dtype, values);
  };
  cases.add("tails", forward, {given(tails), Operand::result()});
  cases.add("tails", backward, {given(ones), given(tails), Operand::result()});
}

void add_dropout(Cases& cases) {
  for (const auto& [n, f] : {std::pair<i64, i64>{1, 1}, {3, 17}, {33, 127}, {6, 256}, {0, 8}}) {
    for (const double p : {0.0, 1e-17, 0.1, 0.75}) {  // 1 - 1e-17 is 1
      DropoutArgs args;
      args.key = 0x123456789ABCDEF0;
      args.p = p;
      const std::string name = fmt::format("{}x{} p {}", n, f, p);
      const auto x = [&, n = n, f = f] { return cases.random({n, f}); };
      const auto rows = [&, n = n] { return cases.rows(n, 5); };
      cases.add(name, args, {x(), Operand::absent(), rows(), Operand::result()});
      cases.add(name + " in place", args, {x(), Operand::absent(), rows(), Operand::alias(0)});
      args.feature_offset = 127;  // not a multiple of the four words of a counter
      cases.add(name + " residual", args, {x(), x(), rows(), Operand::result()});
    }
  }
  DropoutArgs none;
  cases.add("without rows",
            none,
            {cases.random({3, 5}), Operand::absent(), Operand::absent(), Operand::result()});
}

void add_fill(Cases& cases) {
  FillArgs args;
  args.value = -2.5;
  for (const InMemory in_memory : {InMemory::dense, InMemory::padded, InMemory::transposed}) {
    const int where = static_cast<int>(in_memory);
    for (const Shape& shape : {Shape{1}, Shape{127}, Shape{3, 17}, Shape{2, 3, 5, 7}, Shape{0}}) {
      cases.add(fmt::format("{} in memory {}", shape.text(), where),
                args,
                {Operand::blank(shape, cases.dtype).in(in_memory)});
    }
  }
  args.value = 3;
  for (const DType dtype :
       {DType::fp64, DType::bf16, DType::fp16, DType::i64, DType::i32, DType::u8}) {
    cases.add(fmt::format("of {}", dtype_name(dtype)), args, {Operand::blank({33}, dtype)});
  }
}

void add_copy(Cases& cases) {
  const InMemory ways[] = {InMemory::dense, InMemory::padded, InMemory::transposed};
  for (const InMemory from : ways) {
    for (const InMemory to : ways) {
      for (const Shape& shape : {Shape{1}, Shape{33, 17}, Shape{2, 3, 5, 7}, Shape{3, 0}}) {
        cases.add(fmt::format("{} in memory {}{}", shape.text(), int(from), int(to)),
                  CopyArgs{},
                  {cases.random(shape).in(from), Operand::blank(shape, cases.dtype).in(to)});
      }
    }
  }
  for (const DType other : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    if (other == cases.dtype) continue;
    const std::string_view name = dtype_name(other);
    cases.add(fmt::format("converts to {}", name),
              CopyArgs{},
              {cases.random({127}), Operand::blank({127}, other)});
    cases.add(fmt::format("converts from {}", name),
              CopyArgs{},
              {cases.random({127}, other, -1, 1), Operand::blank({127}, cases.dtype)});
    cases.add(fmt::format("of {}", name),
              CopyArgs{},
              {cases.random({3, 17}, other, -1, 1), Operand::result()});
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    cases.add(fmt::format("of {}", dtype_name(dtype)),
              CopyArgs{},
              {cases.integers({3, 17}, dtype, 0, 200), Operand::result()});
  }
}

}  // namespace

void add_elementwise_cases(Cases& cases) {
  for (const Shape& shape :
       {Shape{1}, Shape{3}, Shape{17}, Shape{33, 127}, Shape{3, 5, 7}, Shape{0}, Shape{9001}}) {
    add_pointwise(cases, shape);
  }
  add_tails(cases, GeluArgs{}, GeluBackwardArgs{});
  add_dropout(cases);
  add_fill(cases);
  add_copy(cases);
}

namespace {

template <class Forward, class Backward>
void add_function(Cases& cases, const Forward& forward, const Backward& backward) {
  for (const Shape& shape :
       {Shape{1}, Shape{3}, Shape{17}, Shape{33, 127}, Shape{3, 5, 7}, Shape{0}, Shape{9001}}) {
    const std::string name = shape.text();
    const auto grad = [&] { return cases.random(shape, -3, 3); };
    const auto x = [&] { return cases.random(shape, -8, 8); };
    cases.add(name, forward, {x(), Operand::result()});
    cases.add(name, backward, {grad(), x(), Operand::result()});
    cases.add(name + " in place", backward, {grad(), x(), Operand::alias(0)});
  }
}

}  // namespace

void add_gelu_erf_cases(Cases& cases) {
  add_function(cases, GeluErfArgs{}, GeluErfBackwardArgs{});
  add_tails(cases, GeluErfArgs{}, GeluErfBackwardArgs{});
}

void add_tanh_cases(Cases& cases) { add_function(cases, TanhArgs{}, TanhBackwardArgs{}); }

}  // namespace tessera::testing
