#include "tessera/block_row.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// BERT (Devlin et al. 2019): embedding, a row of blocks whose attention sees both sides, head.
/// Norms are before the sub-layers, with one more after the last block, or after their sums, with
/// one more after the embedding (Shoeybi et al. 2019, figure 7).
class Bert final : public Model {
 public:
  struct Config : BlockRowKeys {
    Config() {
      embedding.type = "bert_embedding";
      head.type = "bert_head";
    }
    std::string order = "pre";
    bool causal = false;
    static void describe(Schema<Config>& s) {
      BlockRowKeys::describe(s);
      s.field("order",
              &Config::order,
              "where norms are: \"pre\": before each sub-layer, and after the last block; "
              "\"post\": after each sum, the embedding's too (BERT of Hugging Face)")
          .one_of({"pre", "post"})
          .structural();
      s.field("causal",
              &Config::causal,
              "default of model.block.attention.causal: a position attends to earlier ones only")
          .structural();
    }
  };

  Bert(const Config& config, const ModelArguments& arguments) : row_(config, arguments) {}

 private:
  std::vector<ModelLayer> do_layers() const override { return row_.layers(); }
  std::shared_ptr<Layer> do_build(int index, BuildContext& build) const override {
    const BlockRowKeys& keys = row_.keys();
    if (index == 0) return build.child("", keys.embedding, row_.given({}));
    if (index <= keys.layers) return build.child("", row_.block(index - 1));
    return build.child("", keys.head, row_.given({}));
  }
  i64 do_vocabulary() const override { return row_.vocabulary(); }

  BlockRow row_;
};

}  // namespace tessera

TESSERA_PLUGIN(bert, "0.1.0", "BERT") {
  registrar.add<tessera::Model, tessera::Bert>(
      "bert", "embedding, blocks that see both sides, heads of masked words and sentence order");
}
