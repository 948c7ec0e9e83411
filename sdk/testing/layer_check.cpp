#include "layer_check.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "operand.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tessera/tape.hpp"
#include "workbench.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

/// What is compared, by its name in a problem's text.
using Results = std::map<std::string, Values>;

Values random_values(i64 count, u64 seed) {
  return Operand::random({count}, DType::fp64, seed).values;
}

/// Keeps losses for the comparison; each has the weight of `rows`.
class LossKeeper final : public StepSink {
 public:
  LossKeeper(LocalRank& rank, i64 rows)
      : inverse_weight_(rank.tensor({1}, DType::fp64, {1.0 / static_cast<double>(rows)})) {}
  Tensor inverse_weight(LossTerm) override { return inverse_weight_; }
  void add_loss(Context&, LossTerm term, const Tensor& scalar) override {
    losses_[term.index].push_back(read(scalar)[0]);
  }
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}
  /// Contributions by term.
  const std::map<int, Values>& losses() const { return losses_; }

 private:
  Tensor inverse_weight_;
  std::map<int, Values> losses_;
};

/// One rank's run of the layer.
class LayerRun {
 public:
  LayerRun(LocalRank& rank, const LayerCase& layer, bool sequence_parallel)
      : rank_(rank),
        layer_(layer),
        rows_(layer.batch.rows()),
        own_(sequence_parallel ? rows_ / rank.mesh().size(Axis::tensor) : rows_),
        first_(sequence_parallel ? own_ * rank.mesh().coordinate(Axis::tensor) : 0) {}

  /// Calls check(name, this rank's values, index in the whole tensor of each run of them).
  template <class Check>
  void run(Check&& check) {
    const std::shared_ptr<Layer> layer = rank_.build<Layer>("layer", layer_.type, layer_.given);
    const std::vector<Phase> phases = layer->phases();
    for (Parameter* parameter : rank_.parameters()) set_values(*parameter);
    const Slot hidden = rank_.slot("hidden");
    Bundle bundle = inputs();
    LossKeeper losses(rank_, rows_);
    Tape tape;
    Context cx = rank_.context();
    cx.tape = &tape;
    cx.sink = &losses;
    cx.loss_scale = rank_.tensor({1}, DType::fp64, {1});
    bundle[hidden] = rank_.tensor({own_, layer_.features}, own_part(1)).with_var(kNeedsGradient);
    const Tape::FrameId frame = tape.begin(bundle.tensors());
    for (const Phase& phase : phases) run_phase(phase, cx, bundle);
    bundle.arrive(*cx.stream);
    tape.end(bundle.tensors());

    const Tensor result = std::exchange(bundle[hidden], {});
    require(result.defined() || !losses.losses().empty(),
            "the layer leaves neither \"hidden\" nor a loss");
    std::vector<Tape::Gradient> gradients(bundle.tensors().size());
    Tape::Gradient& gradient = gradients[static_cast<std::size_t>(hidden.index)];
    if (result.defined()) {
      require(result.shape() == Shape({own_, layer_.features}),
              "the layer leaves \"hidden\" {}; it takes and leaves [{}, {}] on this rank",
              result,
              own_,
              layer_.features);
      check("the result", read(result), rows_run());
      gradient.tensor = rank_.tensor(result.shape(), own_part(2));
    }
    tape.backward(cx, frame, Half::both, gradients);
    gradient.pending.wait(*cx.stream);
    if (gradient.tensor.defined()) {
      check("the gradient of \"hidden\"", read(gradient.tensor), rows_run());
    }
    for (const auto& [term, values] : losses.losses()) {
      const auto count = static_cast<i64>(values.size());
      const Tensor sums = rank_.tensor({count}, DType::fp64, values);
      if (rank_.partial(LossTerm{term}, Axis::tensor)) {
        rank_.group(Axis::tensor)
            .all_reduce(*cx.stream, sums, ReduceOp::sum, "partial")
            .wait(*cx.stream);
      }
      check(fmt::format("loss {}", term), read(sums), {{0, 0, count}});
    }
    for (Parameter* parameter : rank_.parameters()) {
      for (const Axis axis : parameter->layout.partial()) {
        rank_.group(axis)
            .all_reduce(*cx.stream, parameter->grad, ReduceOp::sum, "partial")
            .wait(*cx.stream);
      }
      check(fmt::format("the gradient of \"{}\"", parameter->name),
            read(parameter->grad),
            parameter->layout.runs());
    }
  }

 private:
  std::vector<ElementRun> rows_run() const {
    return {{0, first_ * layer_.features, own_ * layer_.features}};
  }
  Values own_part(u64 seed) const {
    const Values all = random_values(rows_ * layer_.features, seed);
    return {all.begin() + first_ * layer_.features,
            all.begin() + (first_ + own_) * layer_.features};
  }
  // The same logical values under every layout; padding stays zero.
  void set_values(const Parameter& parameter) {
    const Values all = random_values(parameter.logical.elements(), random_key(1, parameter.name));
    Values own(static_cast<std::size_t>(parameter.local.elements()));
    for (const ElementRun& run : parameter.layout.runs()) {
      std::copy_n(all.begin() + run.logical, run.length, own.begin() + run.local);
    }
    write(parameter.main, own);
  }
  Bundle inputs() {
    Values tokens, targets, rows, positions;
    for (i64 row = 0; row < rows_; ++row) {
      const i64 sample = row / layer_.batch.sequence, position = row % layer_.batch.sequence;
      rows.push_back(static_cast<double>(row_id(sample, position)));
      positions.push_back(static_cast<double>(position));
      tokens.push_back(static_cast<double>(row * 7 % layer_.vocabulary));
      targets.push_back(static_cast<double>(row * 11 % layer_.vocabulary));
    }
    const auto slots = std::array{std::pair{"tokens", &tokens},
                                  std::pair{"targets", &targets},
                                  std::pair{"row_ids", &rows},
                                  std::pair{"positions", &positions}};
    for (const auto& [name, values] : slots) rank_.slot(name);
    const Slot mask = rank_.slot("loss_mask");
    Bundle bundle = rank_.bundle();
    for (const auto& [name, values] : slots) {
      bundle[rank_.slot(name)] = rank_.tensor({rows_}, DType::i64, *values);
    }
    bundle[mask] = rank_.tensor({rows_}, DType::u8, Values(static_cast<std::size_t>(rows_), 1));
    return bundle;
  }

  LocalRank& rank_;
  const LayerCase& layer_;
  i64 rows_, own_, first_;
};

LocalWorldOptions options_of(const LayerCase& layer, i64 ranks, bool sequence_parallel) {
  LocalWorldOptions options;
  options.layout.world = options.layout.tensor = ranks;
  options.device = layer.device;
  options.dtype = DType::fp64;
  options.batch = layer.batch;
  options.sequence_parallel = sequence_parallel;
  options.values = layer.values;
  return options;
}

std::string difference(const Values& got,
                       const Values& whole,
                       const std::vector<ElementRun>& runs,
                       double tolerance) {
  double largest = 0;
  for (const double value : whole) largest = std::max(largest, std::abs(value));
  const double bound = tolerance * largest + 1e-12;
  for (const ElementRun& run : runs) {
    if (run.logical + run.length > static_cast<i64>(whole.size())) {
      return fmt::format("has {} values, on one rank {}", run.logical + run.length, whole.size());
    }
    for (i64 i = 0; i < run.length; ++i) {
      const double have = got[static_cast<std::size_t>(run.local + i)];
      const double want = whole[static_cast<std::size_t>(run.logical + i)];
      if (std::abs(have - want) <= bound) continue;
      return fmt::format("element {} is {}, on one rank {}", run.logical + i, have, want);
    }
  }
  return {};
}

}  // namespace

std::string layer_check(const LocalWorld& world, const LayerCase& layer) {
  require(layer.tensor > 1 && layer.batch.rows() % layer.tensor == 0,
          "layer_check: {} rows do not divide among {} ranks, of which there must be two",
          layer.batch.rows(),
          layer.tensor);
  Results whole;
  world.run(options_of(layer, 1, false), [&](LocalRank& rank) {
    LayerRun(rank, layer, false)
        .run([&](const std::string& name,
                 const Values& values,
                 const std::vector<ElementRun>& runs) {
          Values& logical = whole[name];
          for (const ElementRun& run : runs) {
            const auto end = static_cast<std::size_t>(run.logical + run.length);
            logical.resize(std::max(logical.size(), end));
            std::copy_n(values.begin() + run.local, run.length, logical.begin() + run.logical);
          }
        });
  });
  std::string wrong;
  std::mutex mutex;
  for (const bool sequence_parallel : {false, true}) {
    const auto add = [&](i64 rank, std::string_view what, std::string_view how) {
      const std::lock_guard lock(mutex);
      wrong += fmt::format("tensor = {}{}, rank {}: {}: {}\n",
                           layer.tensor,
                           sequence_parallel ? ", sequence parallel" : "",
                           rank,
                           what,
                           how);
    };
    try {
      world.run(options_of(layer, layer.tensor, sequence_parallel), [&](LocalRank& rank) {
        std::set<std::string> missing;
        for (const auto& [name, values] : whole) missing.insert(name);
        LayerRun(rank, layer, sequence_parallel)
            .run([&](const std::string& name,
                     const Values& values,
                     const std::vector<ElementRun>& runs) {
              missing.erase(name);
              const auto found = whole.find(name);
              std::string text = found == whole.end()
                                     ? "is not there on one rank"
                                     : difference(values, found->second, runs, layer.tolerance);
              if (text.empty() && name.starts_with("loss") && values.size() < found->second.size())
                text = fmt::format(
                    "has {} values, on one rank {}", values.size(), found->second.size());
              if (!text.empty()) add(rank.index(), name, text);
            });
        for (const std::string& name : missing) add(rank.index(), name, "is missing");
      });
    } catch (const std::exception& error) {
      add(0, "an error", error.what());
    }
  }
  return wrong;
}

}  // namespace tessera::testing
