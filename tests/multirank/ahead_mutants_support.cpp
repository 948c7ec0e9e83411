#include <utility>

#include "mutants_support.hpp"
#include "tessera/build.hpp"

namespace tessera::testing {

namespace {

// What a model gives its embedding and its heads.
template <class Config>
void describe_given(Schema<Config>& s) {
  s.field("vocab", &Config::vocab, "entries").given();
  s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
  s.field("ahead", &Config::ahead, "positions").given();
}
template <class Config>
Given given_of(const Config& config) {
  return {
      {"vocab", config.vocab}, {"vocab_multiple", config.vocab_multiple}, {"ahead", config.ahead}};
}

// Runs `phase` with what another slot holds in `slot`.
void with_another(Phase& phase, Slot slot, const std::function<Tensor(Context&, Bundle&)>& other) {
  phase.run = [inner = std::move(phase.run), slot, other](Context& cx, Bundle& bundle) {
    const Tensor right = bundle[slot];
    if (right.defined()) bundle[slot] = other(cx, bundle);
    inner(cx, bundle);
    bundle[slot] = right;
  };
}

class MutantAheadHead final : public Layer {
 public:
  struct Config {
    i64 vocab = 0, vocab_multiple = 0, ahead = 0;
    bool keep_hidden = false;
    double factor = 1;
    std::string shared_weight, mistake = "none";
    Component<Layer> inner{"lm_head", {}};
    static void describe(Schema<Config>& s) {
      describe_given(s);
      s.field("keep_hidden", &Config::keep_hidden, "leaves its rows").given();
      s.field("factor", &Config::factor, "of the loss").given();
      s.field("shared_weight", &Config::shared_weight, "the table").given();
      describe_mistake(
          s, {"target_shifted_once_too_often", "target_shifted_within_the_rank", "mask_unshifted"});
      s.slot("inner", &Config::inner, "the head");
    }
  };
  MutantAheadHead(const Config& config, BuildContext& build)
      : mistake_(config.ahead > 0 ? config.mistake : "none"),
        ahead_(config.ahead),
        sequence_(build.batch().sequence),
        targets_(build.slot(later_input("targets", config.ahead))),
        later_targets_(build.slot(later_input("targets", config.ahead + 1))),
        first_targets_(build.slot("targets")),
        mask_(build.slot(later_input("loss_mask", config.ahead))),
        first_mask_(build.slot("loss_mask")) {
    Given given = given_of(config);
    given.emplace_back("keep_hidden", config.keep_hidden);
    given.emplace_back("factor", config.factor);
    given.emplace_back("shared_weight", config.shared_weight);
    inner_ = build.child("", config.inner, given);
  }

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    Phase& phase = phases.front();
    if (mistake_ == "target_shifted_once_too_often") {
      with_another(
          phase, targets_, [this](Context&, Bundle& bundle) { return bundle[later_targets_]; });
    }
    if (mistake_ == "target_shifted_within_the_rank") {
      with_another(phase, targets_, [this](Context& cx, Bundle& bundle) {
        return changed_ids(cx, bundle[first_targets_], [this](std::vector<i64>& ids) {
          const i64 rows = std::ssize(ids);
          for (i64 row = 0; row < rows; ++row) {
            const bool there = row % sequence_ + ahead_ < sequence_;
            ids[static_cast<std::size_t>(row)] =
                there ? ids[static_cast<std::size_t>(row + ahead_)] : 0;
          }
        });
      });
    }
    if (mistake_ == "mask_unshifted") {
      with_another(phase, mask_, [this](Context&, Bundle& bundle) { return bundle[first_mask_]; });
    }
    return phases;
  }

 private:
  std::string mistake_;
  i64 ahead_, sequence_;
  Slot targets_, later_targets_, first_targets_, mask_, first_mask_;
  std::shared_ptr<Layer> inner_;
};

class MutantAheadEmbedding final : public Layer {
 public:
  struct Config {
    i64 vocab = 0, vocab_multiple = 0, ahead = 0;
    std::string mistake = "none";
    Component<Layer> inner{"embedding", {}};
    static void describe(Schema<Config>& s) {
      describe_given(s);
      describe_mistake(s, {"token_shifted_once_too_often"});
      s.slot("inner", &Config::inner, "the embedding");
    }
  };
  MutantAheadEmbedding(const Config& config, BuildContext& build)
      : wrong_(config.ahead > 0 && config.mistake != "none"),
        tokens_(build.slot(later_input("tokens", config.ahead))),
        later_tokens_(build.slot(later_input("tokens", config.ahead + 1))),
        inner_(build.child("", config.inner, given_of(config))) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    if (wrong_) {
      with_another(phases.front(), tokens_, [this](Context&, Bundle& bundle) {
        return bundle[later_tokens_];
      });
    }
    return phases;
  }

 private:
  bool wrong_;
  Slot tokens_, later_tokens_;
  std::shared_ptr<Layer> inner_;
};

}  // namespace

void register_ahead_mutants(Registrar& registrar) {
  registrar.add<Layer, MutantAheadHead>("mutant_ahead_head", "head");
  registrar.add<Layer, MutantAheadEmbedding>("mutant_ahead_embedding", "embedding");
}

}  // namespace tessera::testing
