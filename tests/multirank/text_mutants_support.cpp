// Mistakes that a cache of several sequences invites.
#include "mutants_support.hpp"
#include "tessera/base/sequence_cache.hpp"
#include "tessera/build.hpp"

namespace tessera::testing {

namespace {

// A layer that, where several sequences are kept, writes and reads the places of others.
class MutantCachingLayer final : public Layer {
 public:
  struct Config {
    std::string mistake = "none";
    Component<Layer> inner{"self_attention", {}};
    static void describe(Schema<Config>& s) {
      s.slot("inner", &Config::inner, "the layer");
      describe_mistake(s, {"slot_of_another_sequence"});
    }
  };
  MutantCachingLayer(const Config& config, BuildContext& build)
      : other_(config.mistake != "none"), inner_(build.child("", config.inner)) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    for (Phase& phase : phases) {
      phase.run = [this, inner = std::move(phase.run)](Context& cx, Bundle& bundle) {
        if (!other_ || cx.cache == nullptr) return inner(cx, bundle);
        const SequenceCache::Run run = cx.cache->run();
        SequenceCache::Run other = run;
        other.first = (run.first + 1) % (cx.cache->sequences() - run.sequences + 1);
        cx.cache->begin(cx, other);
        inner(cx, bundle);
        cx.cache->begin(cx, run);
      };
    }
    return phases;
  }

 private:
  bool other_;
  std::shared_ptr<Layer> inner_;
};

}  // namespace

void register_text_mutants(Registrar& registrar) {
  registrar.add<Layer, MutantCachingLayer>("mutant_caching_layer", "attention");
}

}  // namespace tessera::testing
