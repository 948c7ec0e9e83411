#include <memory>
#include <utility>

#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// What a block that predicts further ahead begins with (DeepSeek-AI 2024, §2.2, with the embedding
/// first, as in its weights): a product with the normalised embedding of a later token and the
/// normalised hidden values of the depth before, side by side. Reads the slots "ahead" and "hidden"
/// [own rows, hidden], writes "hidden".
class MultiTokenPrediction final : public Layer {
 public:
  struct Config {
    i64 layers = 1, hidden = 0;
    double weight = 0.1;
    Component<Module> norm{"layernorm", {}};
    Component<Module> projection{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      s.field("layers",
              &Config::layers,
              "depths: with k of them the model learns the k tokens after the next one too, each "
              "by a block of its own")
          .at_least(1)
          .at_most(kMostLayers)
          .also("num_nextn_predict_layers", "is layers of [model.predict_ahead] here")
          .also("--mtp-num-layers", "is layers of [model.predict_ahead] here");
      s.field(
           "weight", &Config::weight, "of the mean over the depths' losses, in what is trained on")
          .above(0)
          .also("--mtp-loss-scaling-factor", "is weight of [model.predict_ahead] here");
      model_fields::hidden(s);
      s.slot("norm", &Config::norm, "normalisation of both, each with weights of its own");
      s.slot("projection", &Config::projection, "from both to the features of a position");
    }
  };

  MultiTokenPrediction(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        ahead_(build.slot("ahead")),
        hidden_(build.slot("hidden")),
        part_(build.divide(2 * config.hidden, "hidden", "features of two rows")),
        embedding_norm_(build.child("embedding_norm", config.norm)),
        hidden_norm_(build.child("hidden_norm", config.norm)),
        projection_(
            build.child("projection",
                        config.projection,
                        {{"in", 2 * config.hidden}, {"out", config.hidden}, {"bias", false}})) {}

  std::vector<Phase> do_phases() override {
    return {{.scope = "mtp", .run = [this](Context& cx, Bundle& bundle) {
               const Tensor later = (*embedding_norm_)(cx, std::exchange(bundle[ahead_], {}));
               const Tensor hidden = (*hidden_norm_)(cx, std::exchange(bundle[hidden_], {}));
               Tensor both = region_.enter(cx, ops::join(cx, {later, hidden}));
               if (region_.size() > 1) {
                 both = ops::slice(cx, both, 1, region_.index() * part_, part_);
               }
               bundle[hidden_] = (*projection_)(cx, both);
             }}};
  }

 private:
  TensorRegion region_;
  Slot ahead_, hidden_;
  i64 part_;  ///< features of both on this rank
  std::shared_ptr<Module> embedding_norm_, hidden_norm_, projection_;
};

}  // namespace tessera

TESSERA_PLUGIN(multi_token_prediction, "0.1.0", "Predicts tokens after the next one too") {
  registrar.add<tessera::Layer, tessera::MultiTokenPrediction>(
      "multi_token_prediction", "joins hidden values with the embedding of a later token");
}
