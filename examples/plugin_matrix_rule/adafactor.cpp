// Updates by a factored second moment (Shazeer, Stern 2018, algorithm 4): of a matrix of m × n
// elements the rule keeps a mean for each row and one for each column, m + n numbers.
#include <algorithm>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>
#include <tessera/process_group.hpp>

#include "adafactor_ops.hpp"

namespace {

using namespace tessera;

// The order of state().
constexpr std::size_t kRows = 0, kColumns = 1;

// The parameter's dimensions but for one, cut where the parameter is.
StateShape without(const Parameter& parameter, int dim) {
  StateShape shape;
  for (int d = 0; d < parameter.logical.rank(); ++d) {
    if (d != dim) shape.push_back({parameter.logical[d], d});
  }
  return shape;
}

// For a vector, which is one row, this is one number.
StateShape of_rows(const Parameter& parameter) {
  return without(parameter, parameter.logical.rank() - 1);
}
StateShape of_columns(const Parameter& parameter) {
  return without(parameter, parameter.logical.rank() - 2);
}

// One shard's matrices, and the ranks that share them.
struct Matrices {
  Matrices(const Parameter& parameter, const Mesh& mesh) {
    const ParameterLayout& layout = parameter.layout;
    const int column = parameter.local.rank() - 1, row = column - 1;
    shape = {1, 1, parameter.local[column]};
    columns = layout.unpadded(column);
    all_columns = parameter.logical[column];
    if (row >= 0) {
      shape[1] = parameter.local[row];
      rows = layout.unpadded(row);
      all_rows = parameter.logical[row];
    }
    shape[0] = parameter.local.elements() / (shape[1] * shape[2]);
    for (const Axis axis : {Axis::tensor, Axis::expert_tensor}) {
      const int dim = layout.cut_dim(axis);
      if (mesh.size(axis) == 1 || dim < 0 || dim < row) continue;  // of experts, each has its own
      group = &mesh.group(axis);
      rows_are_cut = dim == row;
    }
  }

  Shape shape;  ///< [b, m, n] on this rank, padding included
  i64 rows = 1, columns = 1, all_rows = 1, all_columns = 1;
  ProcessGroup* group = nullptr;  ///< that the matrices are cut over; none: they are whole here
  bool rows_are_cut = false;      ///< or columns are
};

class Adafactor final : public UpdateRule {
 public:
  struct Config {
    double eps = 1e-30, least = 1e-3, clip = 1, decay = 0.8, weight_decay = 0;
    static void describe(Schema<Config>& s) {
      s.field("eps", &Config::eps, "added to squares of gradients").above(0);
      s.field("least", &Config::least, "bound of RMS(parameter), which the step is times").above(0);
      s.field("clip", &Config::clip, "bound of RMS(update)").above(0);
      s.field("decay", &Config::decay, "means keep 1 - step^-decay of themselves").above(0);
      s.field("weight_decay", &Config::weight_decay, "decoupled; not of biases and norms")
          .at_least(0);
    }
  };
  // Rows and columns are of whole matrices: no shard ends within one.
  static constexpr bool kWholeParameters = true;

  Adafactor(const Config& config, RuleArguments& arguments)
      : config_(config),
        sums_(*arguments.device),
        means_(*arguments.device),
        apply_(*arguments.device) {}

  std::vector<StateSpec> do_state() const override {
    return {{.name = "rows", .keeps = 1, .shape = &of_rows},
            {.name = "columns", .keeps = 1, .shape = &of_columns}};
  }
  double do_weight_decay() const override { return config_.weight_decay; }

  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    for (std::size_t i = 0; i < shards.list.size(); ++i) update_one(cx, shards, i, scalars);
  }

 private:
  void update_one(Context& cx, const Shards& shards, std::size_t i, const Tensor& scalars) const {
    const Shard& shard = shards.list[i];
    const Matrices of(*shard.parameter, *cx.mesh);
    const i64 b = of.shape[0], m = of.shape[1], n = of.shape[2];
    const Tensor grad = shards.grad_of(i).view(of.shape), main = shards.main_of(i).view(of.shape);
    const Tensor by_row = cx.empty({b * m}, DType::fp64), squares = cx.empty({b}, DType::fp64);
    const Tensor sums = cx.empty({b * m + b + b * n}, DType::fp64);

    AdafactorSumsArgs summed{scalars.arg(), grad.arg(), main.arg(), by_row.arg(), sums.arg()};
    summed.rows = of.rows;
    summed.columns = of.columns;
    summed.eps = config_.eps;
    ops::run(cx, sums_, summed);
    // Where rows are cut a rank has whole ones, and parts of each column; and the other way round.
    const Tensor parts =
        of.rows_are_cut ? sums.slice(0, b * m, b + b * n) : sums.slice(0, 0, b * m + b);
    sum_over(cx, of, parts, "sums of rows or columns");

    AdafactorMeansArgs moved{scalars.arg(),
                             sums.arg(),
                             grad.arg(),
                             shards.state_of(kRows, i).arg(),
                             shards.state_of(kColumns, i).arg(),
                             by_row.arg(),
                             squares.arg()};
    moved.rows = of.rows;
    moved.columns = of.columns;
    moved.all_rows = of.all_rows;
    moved.all_columns = of.all_columns;
    moved.decay = config_.decay;
    ops::run(cx, means_, moved);
    sum_over(cx, of, squares, "squares of an update");

    const Tensor hyper = shards.hyper.slice(0, static_cast<i64>(i), 1);
    AdafactorApplyArgs applied{
        scalars.arg(), hyper.arg(), sums.arg(), squares.arg(), grad.arg(), main.arg(), {}};
    if (shards.compute.defined()) {
      applied.compute = shards.compute.slice(0, shard.grad, shard.range.length).arg();
    }
    applied.elements = of.all_rows * of.all_columns;
    applied.clip = config_.clip;
    applied.least = config_.least;
    ops::run(cx, apply_, applied);
  }

  static void sum_over(Context& cx, const Matrices& of, const Tensor& x, std::string_view what) {
    if (of.group == nullptr) return;
    of.group->all_reduce(*cx.stream, x, ReduceOp::sum, what).wait(*cx.stream);
  }

  Config config_;
  Operation<AdafactorSumsArgs> sums_;
  Operation<AdafactorMeansArgs> means_;
  Operation<AdafactorApplyArgs> apply_;
};

}  // namespace

TESSERA_PLUGIN(adafactor, "0.1.0", "An update rule with a factored second moment") {
  registrar.add<UpdateRule, Adafactor>("adafactor", "factored second moment (Shazeer, Stern 2018)");
  for (Kernel& kernel : adafactor_kernels()) registrar.add_kernel("host", std::move(kernel));
}
