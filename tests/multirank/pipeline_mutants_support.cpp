#include "mutants_support.hpp"

#include <utility>

#include "tessera/build.hpp"
#include "tessera/schedule.hpp"

namespace tessera::testing {

namespace {

// Attention whose phases do something else when they are run again.
class MutantRecomputedAttention final : public Layer {
 public:
  struct Config {
    std::string mistake = "none";
    Component<Layer> inner{"self_attention", {}};
    static void describe(Schema<Config>& s) {
      describe_mistake(s, {"numbers_drawn_anew", "residual_forgotten", "rows_kept_by_the_layer"});
      s.slot("inner", &Config::inner, "the attention");
    }
  };
  MutantRecomputedAttention(const Config& config, BuildContext& build)
      : mistake_(config.mistake),
        row_ids_(build.slot("row_ids")),
        residual_(build.slot("residual")),
        inner_(build.child("", config.inner)) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    for (Phase& phase : phases) {
      phase.run = [this, inner = std::move(phase.run)](Context& cx, Bundle& bundle) {
        const Tensor rows = bundle[row_ids_];
        if (!cx.recomputing) last_rows_ = rows;
        if (cx.recomputing) go_wrong(cx, bundle);
        inner(cx, bundle);
        bundle[row_ids_] = rows;
      };
    }
    return phases;
  }

 private:
  void go_wrong(Context& cx, Bundle& bundle) const {
    if (mistake_ == "numbers_drawn_anew") bundle[row_ids_] = of_other_samples(cx, bundle[row_ids_]);
    if (mistake_ == "residual_forgotten") bundle[residual_] = {};
    // State outside the bundle: of another microbatch when several are live.
    if (mistake_ == "rows_kept_by_the_layer") bundle[row_ids_] = last_rows_;
  }
  static Tensor of_other_samples(Context& cx, const Tensor& rows) {
    return changed_ids(cx, rows, [](std::vector<i64>& ids) {
      for (i64& id : ids) id = row_id(row_sample(id) + 1, row_position(id));
    });
  }

  std::string mistake_;
  Slot row_ids_, residual_;
  std::shared_ptr<Layer> inner_;
  Tensor last_rows_;
};

// A block that takes the pipeline to be cut evenly, and itself to be another stage's where that is
// not so.
class MutantBlock final : public Layer {
 public:
  struct Config {
    i64 layers = 1;
    std::string mistake = "none";
    Component<Layer> inner{"transformer_block", {}};
    static void describe(Schema<Config>& s) {
      s.field("layers", &Config::layers, "of the model").from("model.layers");
      describe_mistake(s, {"skipped", "repeated"});
      s.slot("inner", &Config::inner, "the block");
    }
  };
  MutantBlock(const Config& config, BuildContext& build)
      : mistake_(config.mistake), inner_(build.child("", config.inner)) {
    const std::string scope = build.scope();  // "layers.3"
    const i64 index = std::stoll(scope.substr(scope.rfind('.') + 1));
    const i64 share = config.layers / build.mesh().size(Axis::pipeline);
    elsewhere_ = index / share != build.mesh().coordinate(Axis::pipeline);
  }

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    if (elsewhere_ && mistake_ == "skipped") {
      for (Phase& phase : phases) phase.run = [](Context&, Bundle&) {};
    }
    if (elsewhere_ && mistake_ == "repeated") {
      const std::vector<Phase> again = phases;
      phases.insert(phases.end(), again.begin(), again.end());
    }
    return phases;
  }

 private:
  std::string mistake_;
  std::shared_ptr<Layer> inner_;
  bool elsewhere_ = false;
};

// All forwards, then all backwards, of two chunks a rank. Places are loops; by mistake, while the
// model is built, a rank's chunks are neighbours.
class MutantSchedule final : public PipelineSchedule {
 public:
  struct Config {
    std::string mistake = "none";
    static void describe(Schema<Config>& s) { describe_mistake(s, {"built_for_other_places"}); }
  };
  MutantSchedule(const Config& config, const ScheduleArguments&) : mistake_(config.mistake) {}

  int do_chunks() const override { return 2; }
  Place do_place(const PipelineShape& shape, int rank, int chunk) const override {
    const bool building = shape.microbatches == 1;
    if (building && mistake_ != "none") return {rank * chunks() + chunk};
    return PipelineSchedule::do_place(shape, rank, chunk);
  }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    std::vector<Action> actions;
    const auto add = [&](Action::Kind kind, int chunk) {
      for (int i = 0; i < shape.microbatches; ++i) actions.push_back({kind, i, chunk});
    };
    for (int chunk = 0; chunk < shape.chunks; ++chunk) add(Action::F, chunk);
    if (!shape.training) return actions;
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) add(Action::B, chunk);
    return actions;
  }

 private:
  std::string mistake_;
};

}  // namespace

void register_pipeline_mutants(Registrar& registrar) {
  registrar.add<Layer, MutantRecomputedAttention>("mutant_recomputed_attention", "attention");
  registrar.add<Layer, MutantBlock>("mutant_block", "block");
  registrar.add<PipelineSchedule, MutantSchedule>("mutant_schedule", "two chunks a rank");
}

}  // namespace tessera::testing
