#include "mutants_support.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "precision_mutants_support.hpp"
#include "sdk/src/autograd/linear_parts.hpp"
#include "tessera/base/sequence_cache.hpp"
#include "tessera/build.hpp"
#include "tessera/data.hpp"
#include "tessera/model.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"
#include "tessera/with_type.hpp"

namespace tessera::testing {

namespace {

struct LinearConfig {
  i64 in = 0, out = 0;
  std::vector<i64> sections;
  double init_std = 0.02;
  std::string mistake = "none";
  static void describe(Schema<LinearConfig>& s) {
    s.field("in", &LinearConfig::in, "input features").given();
    s.field("out", &LinearConfig::out, "output features").given();
    s.field("sections", &LinearConfig::sections, "fused outputs").given();
    s.field("init_std", &LinearConfig::init_std, "initial weights").from("model.init_std");
    describe_mistake(s,
                     {"bias_before_reduce",
                      "no_backward_reduce",
                      "skipped",
                      "added_twice",
                      "newest_gradient",
                      "bf16_gradient"});
  }
};

class MutantRowLinear final : public Module {
 public:
  using Config = LinearConfig;
  MutantRowLinear(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        early_(config.mistake == "bias_before_reduce"),
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.out, config.in},
                                 .split = {{1, Axis::tensor}},
                                 .init = Init::gaussian(config.init_std)})),
        bias_(
            build.parameter({.name = "bias",
                             .shape = {config.out},
                             .tags = {"bias"},
                             .placement = early_ ? Placement::replicated() : region_.per_row()})) {}

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    if (!early_) return region_.row(cx, x, weight_, &bias_);
    return region_.leave(cx, ops::linear(cx, x, weight_, &bias_));
  }

 private:
  TensorRegion region_;
  bool early_;
  Parameter &weight_, &bias_;
};

class MutantNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      describe_mistake(s, {"gradient_not_summed", "in_bf16"});
    }
  };
  MutantNorm(const Config& config, BuildContext& build) : narrow_(config.mistake == "in_bf16") {
    const Placement placement = config.mistake == "gradient_not_summed"
                                    ? Placement::replicated()
                                    : build.tensor_region().per_row();
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.hidden},
                                .init = Init::ones(),
                                .tags = {"norm"},
                                .placement = placement});
    bias_ = &build.parameter({.name = "bias",
                              .shape = {config.hidden},
                              .tags = {"norm", "bias"},
                              .placement = placement});
  }
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    Tensor y = ops::layernorm(cx, x, *weight_, *bias_, 1e-5);
    if (narrow_) norm_in_bf16(cx, x, *weight_, *bias_, y);
    return y;
  }

 private:
  bool narrow_;
  Parameter *weight_, *bias_;
};

// y = x · rstd · weight, with the root mean square of some features only.
void norm_by_features(
    Context& cx, const Tensor& x, i64 first, i64 count, const Tensor& weight, const Tensor& y) {
  with_floating("norm_by_features", x.dtype(), [&]<class T>(T) {
    std::vector<T> values(static_cast<std::size_t>(x.elements()));
    std::vector<T> weights(static_cast<std::size_t>(weight.elements()));
    cx.device->read(x, values.data());
    cx.device->read(weight, weights.data());
    for (auto row = values.begin(); row != values.end(); row += std::ssize(weights)) {
      double squares = 0;
      for (i64 j = first; j < first + count; ++j) {
        squares += static_cast<double>(row[j]) * static_cast<double>(row[j]);
      }
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
      for (i64 j = 0; j < std::ssize(weights); ++j) {
        const double normal = static_cast<double>(row[j]) * rstd;
        row[j] = static_cast<T>(normal * static_cast<double>(weights[static_cast<std::size_t>(j)]));
      }
    }
    cx.device->write(y, values.data());
  });
}

class MutantRmsNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      describe_mistake(s, {"gradient_not_summed", "own_features"});
    }
  };
  MutantRmsNorm(const Config& config, BuildContext& build)
      : region_(build.tensor_region()), own_(config.mistake == "own_features") {
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.hidden},
                                .init = Init::ones(),
                                .tags = {"norm"},
                                .placement = config.mistake == "gradient_not_summed"
                                                 ? Placement::replicated()
                                                 : region_.per_row()});
  }
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    const Tensor y = ops::rmsnorm(cx, x, *weight_, 1e-5);
    const i64 count = x.dim(1) / region_.size();
    if (own_) norm_by_features(cx, x, region_.index() * count, count, weight_->compute, y);
    return y;
  }

 private:
  TensorRegion region_;
  bool own_;
  Parameter* weight_;
};

// Its weight half may go wrong unless it follows the input half at once, and may round the main
// gradient after each microbatch.
class MutantColumnLinear final : public Module {
 public:
  using Config = LinearConfig;
  MutantColumnLinear(const Config& config, BuildContext& build)
      : region_(build.tensor_region()), mistake_(config.mistake) {
    const Split split{0, Axis::tensor, config.sections};
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.out, config.in},
                                .split = {split},
                                .init = Init::gaussian(config.init_std)});
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .split = {split}, .tags = {"bias"}});
  }

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    const Tensor entered = mistake_ == "no_backward_reduce" ? x : region_.enter(cx, x);
    Tensor y = linear_parts::forward(cx, entered, *weight_, bias_);
    if (!cx.recording()) return y;
    const Tensor kept = entered.with_var({});
    const auto input_half = [this, kept](Context& c, Gradients& g) {
      if (mistake_ == "newest_gradient") newest_gradient_ = g.output(0);
      g.input(0, linear_parts::input_gradient(c, g.output(0), *weight_));
      if (mistake_ == "added_twice" && g.half() == Half::input) add(c, g.output(0), kept);
    };
    const auto weight_half = [this, kept](Context& c, Gradients& g) {
      if (mistake_ == "skipped" && g.half() == Half::weight) return;
      add(c, mistake_ == "newest_gradient" ? newest_gradient_ : g.output(0), kept);
    };
    cx.tape->record("linear", std::array{entered}, std::array{&y}, input_half, weight_half);
    return y;
  }

 private:
  void add(Context& cx, const Tensor& gradient, const Tensor& x) const {
    linear_parts::add_weight_gradient(cx, gradient, x, *weight_, bias_);
    if (mistake_ != "bf16_gradient") return;
    const Tensor narrow = cx.empty(weight_->grad.shape(), DType::bf16);
    ops::run(cx, CopyArgs{weight_->grad.arg(), narrow.arg()});
    ops::run(cx, CopyArgs{narrow.arg(), weight_->grad.arg()});
  }

  TensorRegion region_;
  std::string mistake_;
  Parameter *weight_, *bias_;
  mutable Tensor newest_gradient_;
};

// The embedding with rows numbered behind it as the local batch has them: every data-parallel rank
// then repeats the dropout masks of the first. Or with rows numbered within the part that a rank of
// the tensor group keeps under sequence parallelism: all repeat the mask of the first part. Or rows
// that follow those in a cache stand one position too late.
class MutantEmbedding final : public Layer {
 public:
  struct Config {
    i64 vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    Component<Layer> inner{"embedding", {}};
    static void describe(Schema<Config>& s) {
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      s.slot("inner", &Config::inner, "the embedding");
      describe_mistake(s,
                       {"local_rows",
                        "rows_of_the_first_part",
                        "positions_in_the_rank",
                        "positions_in_the_half",
                        "kept_rows_counted_from_one"});
    }
  };
  MutantEmbedding(const Config& config, BuildContext& build)
      : local_(config.mistake == "local_rows"),
        late_(config.mistake == "kept_rows_counted_from_one"),
        parts_(config.mistake == "rows_of_the_first_part" ? build.mesh().size(Axis::tensor) : 1),
        row_ids_(build.slot("row_ids")),
        positions_(build.slot("positions")),
        micro_(build.batch().micro),
        ranks_(build.mesh().size(Axis::data)),
        counted_(config.mistake == "positions_in_the_rank"   ? build.batch().sequence
                 : config.mistake == "positions_in_the_half" ? build.batch().sequence / 2
                                                             : 0),
        whole_(build.mesh().size(Axis::context) == 1),
        inner_(build.child("",
                           config.inner,
                           {{"vocab", config.vocab}, {"vocab_multiple", config.vocab_multiple}})) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    phases[0].run = [this, inner = std::move(phases[0].run)](Context& cx, Bundle& bundle) {
      if (local_) bundle[row_ids_] = local_rows(cx, bundle[row_ids_]);
      const Tensor rows = bundle[row_ids_];
      bundle[row_ids_] = rows_of_the_first_part(cx, rows);
      if (late_ && cx.cache != nullptr && cx.cache->length(cx.cache->run().first) > 0) {
        bundle[positions_] = changed_ids(cx, bundle[positions_], [](std::vector<i64>& ids) {
          for (i64& id : ids) ++id;
        });
      }
      inner(cx, bundle);
      bundle[row_ids_] = rows;
      if (counted_ == 0 || whole_) return;
      // For the layers after it.
      bundle[positions_] = changed_ids(cx, bundle[positions_], [this](std::vector<i64>& ids) {
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<i64>(i) % counted_;
      });
    };
    return phases;
  }

 private:
  static constexpr i64 kGlobal = 8;  // samples a step of tiny_config()
  Tensor local_rows(Context& cx, const Tensor& rows) const {
    return changed_ids(cx, rows, [this](std::vector<i64>& ids) {
      for (i64& id : ids) {
        const i64 sample = row_sample(id), in_step = sample % kGlobal;
        const i64 microbatch = in_step / (micro_ * ranks_);
        id = row_id(sample - in_step + microbatch * micro_ + in_step % micro_, row_position(id));
      }
    });
  }
  Tensor rows_of_the_first_part(Context& cx, const Tensor& rows) const {
    return changed_ids(cx, rows, [this](std::vector<i64>& ids) {
      const std::size_t part = ids.size() / static_cast<std::size_t>(parts_);
      for (std::size_t i = part; i < ids.size(); ++i) ids[i] = ids[i % part];
    });
  }

  bool local_, late_;
  i64 parts_;
  Slot row_ids_, positions_;
  i64 micro_, ranks_;
  i64 counted_;  ///< positions that are counted from 0 anew; 0: all of a sample
  bool whole_;   ///< are whole samples here?
  std::shared_ptr<Layer> inner_;
};

class MutantHead final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    Component<Module> norm{"layernorm", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      s.slot("norm", &Config::norm, "normalisation");
      describe_mistake(s,
                       {"halved_tied",
                        "dropped_tied",
                        "tied_averaged_over_stages",
                        "mean_over_data",
                        "no_copy"});
    }
  };
  MutantHead(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        targets_(build.slot("targets")),
        mask_(build.slot("loss_mask")),
        loss_(build.loss({.name = "lm"})),
        norm_(build.child("norm", config.norm)),
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.vocab, config.hidden},
                                 .split = {{0, Axis::tensor, {}, config.vocab_multiple}},
                                 .init = Init::gaussian(0.02),
                                 .tags = {"embedding"},
                                 .share = "embedding.weight"})),
        first_(region_.index() * weight_.local[0]),
        valid_(std::clamp<i64>(config.vocab - first_, 0, weight_.local[0])),
        copies_(config.mistake != "no_copy") {
    if (config.mistake == "halved_tied") tied_factor_ = 0.5;
    if (config.mistake == "dropped_tied") tied_factor_ = 0;
    if (config.mistake == "tied_averaged_over_stages") {
      tied_factor_ = 1 / static_cast<double>(build.mesh().size(Axis::pipeline));
    }
    if (config.mistake == "mean_over_data") {
      loss_factor_ = 1 / static_cast<double>(build.mesh().size(Axis::data));
    }
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
               Tensor x = (*norm_)(cx, bundle[hidden_]);
               if (copies_) x = region_.enter(cx, x);
               const Tensor logits =
                   scale_gradient(cx, scaled_linear(cx, x, weight_, tied_factor_), loss_factor_);
               cx.add_loss(loss_,
                           ops::cross_entropy(cx,
                                              logits,
                                              bundle[targets_],
                                              bundle[mask_],
                                              cx.sink->inverse_weight(loss_),
                                              first_,
                                              valid_,
                                              region_.group(),
                                              region_.name()));
             }}};
  }

 private:
  TensorRegion region_;
  Slot hidden_, targets_, mask_;
  LossTerm loss_;
  std::shared_ptr<Module> norm_;
  Parameter& weight_;
  i64 first_, valid_;
  bool copies_;
  double tied_factor_ = 1, loss_factor_ = 1;
};

}  // namespace

Tensor scaled_linear(Context& cx, const Tensor& x, Parameter& weight, double factor) {
  Tensor y = linear_parts::forward(cx, x, weight, nullptr);
  if (!cx.recording()) return y;
  const auto input_half = [&weight](Context& c, Gradients& g) {
    g.input(0, linear_parts::input_gradient(c, g.output(0), weight));
  };
  const auto weight_half = [x = x.with_var({}), &weight, factor](Context& c, Gradients& g) {
    if (factor == 0) return;
    ScaleArgs scale{g.output(0).arg(), {}, factor};
    const Tensor scaled = ops::run(c, scale)[0];
    linear_parts::add_weight_gradient(c, scaled, x, weight, nullptr);
  };
  cx.tape->record("linear", std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

Tensor changed_ids(Context& cx,
                   const Tensor& rows,
                   const std::function<void(std::vector<i64>&)>& change) {
  std::vector<i64> ids(static_cast<std::size_t>(rows.elements()));
  cx.device->read(rows, ids.data());
  change(ids);
  Tensor changed = cx.empty({rows.elements()}, DType::i64);
  cx.device->write(changed, ids.data());
  return changed;
}

Tensor scale_gradient(Context& cx, const Tensor& x, double factor) {
  if (!cx.recording() || factor == 1) return x;
  Tensor y = x.with_var({});
  cx.tape->record(
      "scale_gradient", std::array{x}, std::array{&y}, [factor](Context& c, Gradients& g) {
        g.input(0, ops::run(c, ScaleArgs{g.output(0).arg(), {}, factor})[0]);
      });
  return y;
}

void register_mutants(Registrar& registrar) {
  registrar.add<Module, MutantRowLinear>("mutant_row_linear", "row linear");
  registrar.add<Module, MutantNorm>("mutant_norm", "norm");
  registrar.add<Module, MutantRmsNorm>("mutant_rmsnorm", "norm");
  registrar.add<Module, MutantColumnLinear>("mutant_column_linear", "column linear");
  registrar.add<Layer, MutantEmbedding>("mutant_embedding", "embedding");
  registrar.add<Layer, MutantHead>("mutant_head", "head");
  register_attention_mutant(registrar);
  register_optimizer_mutant(registrar);
  register_pipeline_mutants(registrar);
  register_moe_mutants(registrar);
  register_ahead_mutants(registrar);
  register_text_mutants(registrar);
  register_bert_mutants(registrar);
}

const PluginHost& mutants() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin(&register_mutants);
    return loaded;
  }();
  return *kHost;
}

}  // namespace tessera::testing
