#include "tessera/block_row.hpp"
#include "tessera/plugin.hpp"
#include "training_only.hpp"

namespace tessera {

/// GPT: embedding, a row of blocks of one kind or several, head. Where it predicts tokens further
/// ahead, each depth follows the head: what joins the embedding of a later token with the hidden
/// values of the depth before, a block as the last one, and a head of its own that uses the same
/// table (DeepSeek-AI 2024, §2.2).
class Gpt final : public Model {
 public:
  struct Config : BlockRowKeys {
    bool tied_embeddings = true;
    Component<Layer> predict_ahead{"", {}};
    Auto<i64> depths;
    Auto<double> ahead_weight;
    static void describe(Schema<Config>& s) {
      BlockRowKeys::describe(s);
      s.field("tied_embeddings", &Config::tied_embeddings, "input and output share one table")
          .structural();
      s.slot("predict_ahead",
             &Config::predict_ahead,
             "trains the model to predict tokens after the next one too; \"none\": it does not");
      s.field("depths", &Config::depths, "set in [model.predict_ahead]")
          .given()
          .from("model.predict_ahead.layers")
          .at_least(1)
          .at_most(kMostLayers);
      s.field("ahead_weight", &Config::ahead_weight, "set in [model.predict_ahead]")
          .given()
          .from("model.predict_ahead.weight")
          .above(0);
    }
  };

  Gpt(const Config& config, const ModelArguments& arguments)
      : config_(config), row_(config, arguments) {
    if (!config.predict_ahead.type.empty()) check_ahead(arguments);
  }

  std::vector<ModelLayer> do_layers() const override {
    std::vector<ModelLayer> plan = row_.layers();
    for (i64 k = 0; k < depths(); ++k) {
      plan.push_back({fmt::format("ahead.{}", k), ModelLayer::ahead});
      plan.push_back({fmt::format("ahead.{}.head", k), ModelLayer::head});
    }
    return plan;
  }

  std::shared_ptr<Layer> do_build(int index, BuildContext& build) const override {
    if (index == 0) return build.child("", config_.embedding, row_.given({}));
    if (index <= config_.layers) {
      return build.child("", row_.block(index - 1));
    }
    const i64 after = index - config_.layers - 1, depth = (after + 1) / 2;
    if (after % 2 == 0) return build_head(depth, build);
    // One by one: their parameters are declared in this order.
    const auto later = build.child("embedding", config_.embedding, row_.given({{"ahead", depth}}));
    const auto joined = build.child("", config_.predict_ahead);
    const auto block = build.child("block", row_.block(config_.layers - 1));
    return std::make_shared<TrainingOnly>(
        std::vector<std::shared_ptr<Layer>>{later, joined, block});
  }

  i64 do_vocabulary() const override { return row_.vocabulary(); }

 private:
  void check_ahead(const ModelArguments& arguments) const {
    const auto missing = [&](std::string_view key) {
      fail_config(
          "model.predict_ahead.type = \"{}\" has no key \"{}\"", config_.predict_ahead.type, key);
    };
    if (!config_.depths) missing("layers");
    if (!config_.ahead_weight) missing("weight");
    if (*config_.depths < arguments.sequence_length) return;
    fail_config(
        "model.predict_ahead.layers = {}: batch.sequence_length = {} leaves depth {} without a "
        "target; at most {} layers fit",
        *config_.depths,
        arguments.sequence_length,
        *config_.depths,
        arguments.sequence_length - 1);
  }

  i64 depths() const { return config_.predict_ahead.type.empty() ? 0 : *config_.depths; }

  // The head of a depth; 0: the model's own.
  std::shared_ptr<Layer> build_head(i64 depth, BuildContext& build) const {
    Given more;
    if (depth < depths()) more.emplace_back("keep_hidden", true);
    if (depth == 0) return build.child("", config_.head, row_.given(std::move(more)));
    more.emplace_back("ahead", depth);
    more.emplace_back("factor", *config_.ahead_weight / static_cast<double>(depths()));
    more.emplace_back("shared_weight", "head.weight");
    const auto head = build.child("", config_.head, row_.given(std::move(more)));
    return std::make_shared<TrainingOnly>(std::vector<std::shared_ptr<Layer>>{head});
  }

  Config config_;
  BlockRow row_;
};

}  // namespace tessera

TESSERA_PLUGIN(gpt, "0.1.0", "GPT language model") {
  registrar.add<tessera::Model, tessera::Gpt>("gpt", "embedding, transformer blocks, head");
}
