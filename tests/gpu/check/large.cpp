// Tensors of more than 2^31 elements: the last rows of a large call must be what the same rows give
// in a small one, where an index of 32 bits anywhere reads or writes other rows; and copies of more
// than 2 GiB.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "check.hpp"
#include "tessera/device/host_block.hpp"
#include "tessera/ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::gpu_check {
namespace {

constexpr i64 kWidth = 1024, kTail = 128;    // the tail lies on both sides of element 2^31
constexpr i64 kHeads = 16, kPositions = 64;  // of attention
constexpr DType kType = DType::bf16;         // 4.3 GB a tensor
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Rows {
 public:
  Rows(testing::Workbench& bench, i64 rows)
      : bench_(bench),
        rows_(rows),
        x_(random(1)),
        y_(random(2)),
        ids_(numbers(DType::i64, [](i64 i) { return static_cast<double>(row_id(i / 64, i)); })),
        targets_(numbers(DType::i64, [](i64 i) { return static_cast<double>(i * 31 % kWidth); })),
        mask_(numbers(DType::u8, [](i64 i) { return i % 5 == 0 ? 0.0 : 1.0; })) {}

  Context& cx() { return bench_.context(); }
  testing::Workbench& bench() { return bench_; }
  i64 rows() const { return rows_; }
  const Tensor& x() const { return x_; }
  const Tensor& y() const { return y_; }
  const Tensor& ids() const { return ids_; }
  const Tensor& targets() const { return targets_; }
  const Tensor& mask() const { return mask_; }

  /// Memory that an operation must write.
  Tensor unwritten(const Shape& shape, DType dtype = kType) {
    Tensor made = cx().empty(shape, dtype);
    FillArgs fill{.out = made.arg(), .value = kNan};
    ops::run(cx(), fill);
    return made;
  }

 private:
  /// Random rows, the tail's unlike all others: 509 of them again and again, so that none is
  /// repeated after a power of two.
  Tensor random(u64 seed) {
    const i64 some = std::min<i64>(509, rows_ - kTail);
    Tensor made = cx().empty({rows_, kWidth}, kType);
    const auto copy = [&](const Tensor& from, i64 to) {
      CopyArgs args{.x = from.arg(), .out = made.slice(0, to, from.dim(0)).arg()};
      ops::run(cx(), args);
    };
    copy(bench_.random({some, kWidth}, kType, seed), 0);
    for (i64 ready = some; ready < rows_;) {
      const i64 more = std::min(ready, rows_ - ready);
      copy(made.slice(0, 0, more), ready);
      ready += more;
    }
    copy(bench_.random({kTail, kWidth}, kType, seed + 100), rows_ - kTail);
    return made;
  }
  Tensor numbers(DType dtype, double (*number)(i64)) {
    std::vector<double> values;
    for (i64 i = 0; i < rows_; ++i) values.push_back(number(i));
    return bench_.tensor({rows_}, dtype, values);
  }

  testing::Workbench& bench_;
  i64 rows_;
  Tensor x_, y_, ids_, targets_, mask_;
};

/// An operation on rows [begin, end) of the inputs: its outputs, with as many first elements for
/// each row.
using Call = std::function<std::vector<Tensor>(Rows&, i64 begin, i64 rows)>;

std::vector<double> last_rows(const Tensor& out, i64 rows, i64 all) {
  const i64 count = out.dim(0) * rows / all;  // of samples, where an element is one
  return testing::read(out.slice(0, out.dim(0) - count, count));
}

/// relative: of values that another kernel may round otherwise.
std::string difference(const std::vector<double>& large,
                       const std::vector<double>& alone,
                       double relative) {
  for (std::size_t i = 0; i < large.size(); ++i) {
    const bool near = std::abs(large[i] - alone[i]) <= relative * (1 + std::abs(alone[i]));
    if (large[i] != alone[i] && !near) {
      return fmt::format(
          "element {} of the last rows is {}, alone it is {}", i, large[i], alone[i]);
    }
  }
  return large.size() == alone.size() ? "" : "the last rows have another size";
}

void check_tail(Rows& rows, const std::string& name, const Call& call, double relative = 0) {
  std::vector<std::vector<double>> large;
  for (const Tensor& out : call(rows, 0, rows.rows())) {
    large.push_back(last_rows(out, kTail, rows.rows()));
  }
  std::string problem;
  std::size_t i = 0;
  for (const Tensor& out : call(rows, rows.rows() - kTail, kTail)) {
    problem += difference(large[i++], testing::read(out), relative);
  }
  print(checked(name, problem));
}

template <class Args>
std::vector<Tensor> one_output(Rows& rows, Args args, const Shape& shape) {
  const Tensor out = rows.unwritten(shape);
  args.out = out.arg();
  ops::run(rows.cx(), args);
  return {out};
}

std::vector<Tensor> layernorm(Rows& rows, i64 begin, i64 n) {
  const Tensor weight = rows.bench().random({kWidth}, kType, 5);
  const Tensor out = rows.unwritten({n, kWidth});
  const Tensor mean = rows.unwritten({n}, DType::fp32), rstd = rows.unwritten({n}, DType::fp32);
  LayerNormArgs args{.x = rows.x().slice(0, begin, n).arg(),
                     .weight = weight.arg(),
                     .bias = weight.arg(),
                     .out = out.arg(),
                     .mean = mean.arg(),
                     .rstd = rstd.arg()};
  ops::run(rows.cx(), args);
  return {out, mean, rstd};
}

std::vector<Tensor> cross_entropy(Rows& rows, i64 begin, i64 n) {
  const Tensor one = rows.bench().tensor({1}, DType::fp64, {1});
  const Tensor sums = rows.unwritten({n, 2}, DType::fp32), out = rows.unwritten({n, kWidth});
  WholeCrossEntropyArgs args{.logits = rows.x().slice(0, begin, n).arg(),
                             .targets = rows.targets().slice(0, begin, n).arg(),
                             .mask = rows.mask().slice(0, begin, n).arg(),
                             .inverse_weight = one.arg(),
                             .grad = one.arg(),
                             .sums = sums.arg(),
                             .out = out.arg(),
                             .valid = kWidth - 3};
  ops::run(rows.cx(), args);
  return {sums, out};
}

std::vector<Tensor> attention(Rows& rows, i64 begin, i64 n) {
  const i64 samples = n / kPositions, size = kWidth / kHeads;
  const Shape shape = {samples, kPositions, kHeads, size};
  const Tensor x = rows.x().slice(0, begin, n).view(shape);
  const Tensor y = rows.y().slice(0, begin, n).view(shape);
  const Tensor ids = rows.ids().slice(0, begin, n);
  const Tensor out = rows.unwritten(shape);
  const Tensor lse = rows.unwritten({samples, kHeads, kPositions}, DType::fp32);
  AttentionArgs args{.q = x.arg(),
                     .k = y.arg(),
                     .v = x.arg(),
                     .row_ids = ids.arg(),
                     .first = {},
                     .last = {},
                     .out = out.arg(),
                     .lse = lse.arg(),
                     .spec = {.scale = 0.125}};
  ops::run(rows.cx(), args);
  const Tensor q = rows.unwritten(shape), k = rows.unwritten(shape), v = rows.unwritten(shape);
  AttentionBackwardArgs back{.q = x.arg(),
                             .k = y.arg(),
                             .v = x.arg(),
                             .row_ids = ids.arg(),
                             .first = {},
                             .last = {},
                             .out = out.arg(),
                             .lse = lse.arg(),
                             .grad = y.arg(),
                             .q_grad = q.arg(),
                             .k_grad = k.arg(),
                             .v_grad = v.arg(),
                             .spec = {.scale = 0.125}};
  ops::run(rows.cx(), back);
  return {out, lse, q, k, v};
}

void check_rows(Rows& rows) {
  const auto x = [&](i64 begin, i64 n) { return rows.x().slice(0, begin, n).arg(); };
  const auto y = [&](i64 begin, i64 n) { return rows.y().slice(0, begin, n).arg(); };
  check_tail(rows, "copy", [&](Rows& r, i64 begin, i64 n) {
    return one_output(r, CopyArgs{.x = x(begin, n), .out = {}}, {n, kWidth});
  });
  check_tail(rows, "add", [&](Rows& r, i64 begin, i64 n) {
    return one_output(r, AddArgs{.a = x(begin, n), .b = y(begin, n), .out = {}}, {n, kWidth});
  });
  check_tail(rows, "gelu", [&](Rows& r, i64 begin, i64 n) {
    return one_output(r, GeluArgs{.x = x(begin, n), .out = {}}, {n, kWidth});
  });
  check_tail(rows, "dropout", [&](Rows& r, i64 begin, i64 n) {
    return one_output(r,
                      DropoutArgs{.x = x(begin, n),
                                  .residual = y(begin, n),
                                  .row_ids = r.ids().slice(0, begin, n).arg(),
                                  .out = {},
                                  .key = 77,
                                  .p = 0.3},
                      {n, kWidth});
  });
  check_tail(rows, "layernorm", layernorm);
  check_tail(rows, "cross entropy", cross_entropy);
  check_tail(rows, "embedding", [&](Rows& r, i64 begin, i64 n) {
    return one_output(
        r,
        EmbeddingArgs{
            .ids = r.targets().slice(0, begin, n).arg(), .table = x(0, kWidth), .out = {}},
        {n, kWidth});
  });
  check_tail(rows, "attention", attention);
  const Tensor factor = rows.bench().random({kWidth, kWidth}, kType, 9, -0.03, 0.03);
  check_tail(
      rows,
      "product",
      [&](Rows& r, i64 begin, i64 n) {
        return one_output(
            r,
            MatmulArgs{.a = x(begin, n), .b = factor.arg(), .bias = {}, .packed = {}, .out = {}},
            {n, kWidth});
      },
      0.01);  // its library may sum in another order
}

/// Operations on a table of that many elements, and sums over all rows.
void check_tables(Rows& rows) {
  std::vector<double> last;
  for (i64 i = rows.rows() - kTail; i < rows.rows(); ++i) last.push_back(static_cast<double>(i));
  const Tensor ids = rows.bench().tensor({kTail}, DType::i64, last);
  const Tensor tail = rows.x().slice(0, rows.rows() - kTail, kTail);
  const std::vector<double> values = testing::read(tail);
  const auto looked_up = one_output(
      rows, EmbeddingArgs{.ids = ids.arg(), .table = rows.x().arg(), .out = {}}, {kTail, kWidth});
  print(checked("embedding of a large table", difference(testing::read(looked_up[0]), values, 0)));

  const Tensor sums = rows.cx().empty({rows.rows(), kWidth}, DType::fp32);
  FillArgs zero{.out = sums.arg()};
  ops::run(rows.cx(), zero);
  EmbeddingWeightArgs weight{.ids = ids.arg(), .grad = tail.arg(), .table_grad = sums.arg()};
  ops::run(rows.cx(), weight);
  print(checked("gradient of a large table",
                difference(last_rows(sums, kTail, rows.rows()), values, 0)));

  FillArgs one{.out = rows.x().arg(), .value = 1};
  ops::run(rows.cx(), one);
  print(checked(
      "fill",
      difference(
          last_rows(rows.x(), kTail, rows.rows()), std::vector<double>(values.size(), 1.0), 0)));
  const Tensor columns = rows.bench().tensor({kWidth}, DType::fp32, std::vector<double>(kWidth));
  ColumnSumArgs sum{.x = rows.x().arg(), .out = columns.arg()};
  ops::run(rows.cx(), sum);
  print(checked("column sums",
                difference(testing::read(columns),
                           std::vector<double>(kWidth, static_cast<double>(rows.rows())),
                           0)));
}

/// A dense copy of more than 2 GiB is one row, longer than the pitch of any.
void check_blocks(Rows& rows, bool quick) {
  Device& device = rows.x().device();
  const i64 row_bytes = kWidth * dtype_size(kType);
  const i64 n = quick ? 2 * kTail : (i64{1} << 31) / row_bytes + kTail / 2;
  const auto tail = [&](const Tensor& of) { return testing::read(of.slice(0, n - kTail, kTail)); };
  const Tensor from = rows.x().slice(0, 0, n);
  const HostBlock block = device.host_block(from.bytes());
  device.copy_to_host(device.stream(), from, block);
  const Tensor back = rows.unwritten({n, kWidth});
  device.copy_from_host(device.stream(), back, block);
  print(checked("copies to a host block and back", difference(tail(back), tail(from), 0)));

  // In a block both copies might go astray alike.
  const Tensor last = rows.unwritten({kTail, kWidth});
  device.write(last, block.address() + (n - kTail) * row_bytes);
  print(checked("the last rows in a host block", difference(testing::read(last), tail(from), 0)));
}

}  // namespace

void large(const Target& target) {
  const auto device = target.make();
  testing::Workbench bench(*device);
  const i64 rows = target.options().quick ? 10 * kTail : (i64{1} << 31) / kWidth + kTail / 2;
  Rows inputs(bench, rows);
  print(Json().add("name", "elements").add("unit", "elements").add("value", rows * kWidth));
  check_rows(inputs);
  check_blocks(inputs, target.options().quick);
  check_tables(inputs);
}

}  // namespace tessera::gpu_check
