// Tables of slots in which something is written and from which no layer is built.
#include <gmock/gmock.h>

#include "bert_samples_support.hpp"
#include "common/error_of.hpp"
#include "kernel/planner/predict.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "tessera/build.hpp"

namespace tessera::testing {
namespace unbuilt_tables_test {

using namespace decoder_layouts;
using namespace bert_samples;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// As an author of a layer elsewhere writes it: nothing says when the slots are used.
class Choosy final : public Layer {
 public:
  struct Config {
    bool both = false;
    Component<Layer> always{"mlp", {}}, more{"mlp", {}};
    static void describe(Schema<Config>& s) {
      s.field("both", &Config::both, "calls more, too");
      s.slot("always", &Config::always, "what is called");
      s.slot("more", &Config::more, "called after it, of both only");
    }
  };
  Choosy(const Config& config, BuildContext& build) {
    inner_.push_back(build.child("always", config.always));
    if (config.both) inner_.push_back(build.child("more", config.more));
  }

 private:
  std::vector<Phase> do_phases() override {
    std::vector<Phase> all;
    for (const auto& layer : inner_) {
      for (Phase& phase : layer->phases()) all.push_back(std::move(phase));
    }
    return all;
  }
  std::vector<std::shared_ptr<Layer>> inner_;
};

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin(+[](Registrar& r) { r.add<Layer, Choosy>("choosy", "one MLP or two"); });
    return loaded;
  }();
  return *kHost;
}

Resolved resolved(const std::string& more, const Sets& sets) {
  return resolve(Config::parse(tiny_config() + more, "run.toml", sets), host());
}

// The problems that `config check` tells, empty where there are none.
std::string problems(const Sets& sets, const std::string& more = "") {
  return error_of<ConfigError>([&] {
    const Resolved config = resolved(more, sets);
    checked_setup(config, host(), world_size(config.run), 1);
  });
}

// Of a BERT, from the last of the settings.
std::string problem(std::string_view order, const Sets& more) {
  const Sets sets = bert(order, more);
  const std::string text = problems(sets), at = fmt::format("--set #{}: ", sets.size());
  if (text.empty()) return text;
  EXPECT_THAT(text, StartsWith(at));
  return text.substr(std::min(at.size(), text.size()));
}

TEST(UnbuiltTables, NormsThatTheOrderLeavesOut) {
  const std::string embedding =
      "[model.embedding.norm] eps has no effect: \"bert_embedding\" makes no \"norm\" as it is "
      "configured (normalisation of the sum, with model.order = \"post\" only)";
  const std::string head =
      "[model.head.norm] type has no effect: \"bert_head\" makes no \"norm\" as it is configured "
      "(normalisation after the last block, with model.order = \"pre\" only)";
  for (const Sets& layout : {Sets(), kTensor, Sets{"parallel.pipeline=2", "schedule.type=1f1b"}}) {
    const Sets eps = with(layout, {"model.embedding.norm.eps=1e-6"});
    const Sets type = with(layout, {"model.head.norm.type=rmsnorm"});
    EXPECT_EQ(problem("pre", eps), embedding);
    EXPECT_EQ(problem("post", eps), "");
    EXPECT_EQ(problem("post", type), head);
    EXPECT_EQ(problem("pre", type), "");
  }
}

TEST(UnbuiltTables, OfTheHeadsThatSamplesWithoutPairsHave) {
  EXPECT_THAT(problem("post", {"model.head.pairs=false", "model.head.pooler.type=row_linear"}),
              HasSubstr("[model.head.pooler] type has no effect: \"bert_head\" makes no \"pooler\" "
                        "as it is configured (of the first row, before tanh; with pairs only)"));
}

// It says what holds without it.
TEST(UnbuiltTables, TheDefaultTypeMayBeWritten) {
  EXPECT_EQ(problem("post", {"model.head.norm.type=layernorm"}), "");
  EXPECT_EQ(problem("pre", {"model.embedding.norm.type=layernorm"}), "");
  EXPECT_EQ(problems({"model.block.attention.q_norm.type=none"}), "");
}

const std::string kChoosy = "[model.block.mlp]\ntype = \"choosy\"\n";

TEST(UnbuiltTables, OfALayerFromElsewhere) {
  EXPECT_EQ(problems({}, kChoosy + "[model.block.mlp.always]\nffn = 32\n"), "");
  EXPECT_EQ(problems({"model.block.mlp.both=true"}, kChoosy + "[model.block.mlp.more]\nffn = 32\n"),
            "");
  const std::string found =
      problems({}, kChoosy + "[model.block.mlp.more]\nffn = 32\ntype = \"gated_mlp\"\n");
  EXPECT_THAT(found, StartsWith("run.toml:"));
  EXPECT_THAT(found,
              EndsWith(":7: [model.block.mlp.more] ffn has no effect: \"choosy\" makes no \"more\" "
                       "as it is configured (called after it, of both only)"));
}

TEST(UnbuiltTables, InsideOfATableThatIsNotBuilt) {
  const std::string found =
      problems({}, kChoosy + "[model.block.mlp.more.up]\ntype = \"row_linear\"\n");
  EXPECT_THAT(found,
              EndsWith("[model.block.mlp.more.up] type has no effect: nothing is made from "
                       "[model.block.mlp.more], which it is in"));
}

TEST(UnbuiltTables, EachIsTold) {
  const Sets both = {"model.head.pairs=false",
                     "model.head.pooler.type=row_linear",
                     "model.head.norm.type=rmsnorm"};
  EXPECT_THAT(problems(bert("pre", both)), Not(HasSubstr("norm")));
  EXPECT_THAT(problems(bert("post", both)),
              AllOf(HasSubstr("[model.head.pooler] type"), HasSubstr("[model.head.norm] type")));
}

// What is written for all blocks is used where one kind of them builds it.
TEST(UnbuiltTables, OfKindsOfBlocks) {
  const std::string kinds =
      "[model.blocks.dense.mlp]\ntype = \"mlp\"\n[model.blocks.sparse.mlp]\ntype = \"choosy\"\n";
  const Sets pattern = {"model.pattern=dense sparse"};
  EXPECT_EQ(
      problems(pattern, kinds + "[model.block.mlp]\nffn = 32\n[model.block.norm]\neps = 1e-6\n"),
      "");
  EXPECT_EQ(problems(pattern, kinds + "[model.blocks.sparse.mlp.always]\nffn = 32\n"), "");
  EXPECT_THAT(problems(pattern, kinds + "[model.blocks.sparse.mlp.more]\nffn = 32\n"),
              HasSubstr("[model.blocks.sparse.mlp.more] ffn has no effect: \"choosy\" makes no"));
  const std::string latent =
      "[model.block.attention]\ntype = \"latent_attention\"\nkv_latent = 8\nfixed_size = 8\n"
      "rotary_size = 4\n";
  const std::string norm = "[model.block.attention.q_norm]\neps = 1e-6\n";
  EXPECT_EQ(problems(with(pattern, {"model.block.attention.q_latent=8"}), kinds + latent + norm),
            "");
  EXPECT_THAT(problems(pattern, kinds + latent + norm),
              HasSubstr("[model.block.attention.q_norm] eps has no effect: \"latent_attention\" "
                        "makes no \"q_norm\" as it is configured"));
}

TEST(UnbuiltTables, APlanFindsThemToo) {
  PlanArguments arguments;
  const Resolved config = resolved("", bert("post", {"model.head.norm.eps=1e-6"}));
  arguments.config = &config;
  arguments.plugins = &host();
  EXPECT_THAT(error_of<ConfigError>([&] { predict(arguments); }),
              HasSubstr("[model.head.norm] eps has no effect: "));
}

// --- keys that the model sets ---

TEST(GivenKeys, SayWhatSetsThem) {
  const Sets set = {"model.block.order=post"};
  const std::string line = "\n      | model.block.order=post\n      | ^^^^^^^^^^^^^^^^^";
  const std::size_t last = bert("pre", set).size();
  EXPECT_EQ(
      problems(bert("pre", set)),
      fmt::format(
          "--set #{}: [model.block] \"order\" is set by model.order; set that one{}", last, line));
  EXPECT_EQ(
      problems(set),
      "--set #1: [model.block] \"order\" is set by model.order, which only model \"bert\" knows, "
      "and [model] type is \"gpt\" here; remove it" +
          line);
  EXPECT_THAT(problems({"model.embedding.vocab=5"}),
              StartsWith("--set #1: [model.embedding] \"vocab\" is set by the component around it; "
                         "remove it here"));
}

}  // namespace unbuilt_tables_test
}  // namespace tessera::testing
