// Documents in one sample that do not see each other: packed, they give the losses and gradients of
// each alone; and the same under every layout. The data says positions, first and last; where a
// bound lies among the chunks of a context-parallel rank makes no difference.
#include <gmock/gmock.h>

#include "decoder_layouts_support.hpp"
#include "tessera/plugin.hpp"

namespace tessera::testing {
namespace documents_test {

using namespace decoder_layouts;

constexpr i64 kLength = 8;

// Documents of the given lengths, all in one sample, or each in a sample of its own that is filled
// up with rows that see themselves alone and do not count.
class Documents final : public Dataset {
 public:
  struct Config {
    std::vector<i64> lengths;
    bool alone = false, positions = true;
    static void describe(Schema<Config>& s) {
      s.field("lengths", &Config::lengths, "tokens of each document");
      s.field("alone", &Config::alone, "each in a sample of its own");
      s.field("positions", &Config::positions, "count from each document's begin");
    }
  };
  Documents(const Config& config, DatasetArguments&) : config_(config) {}

 private:
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64},
            {"targets", DType::i64},
            {"loss_mask", DType::u8, "lm"},
            {"positions", DType::i64},
            {"first", DType::i32},
            {"last", DType::i32}};
  }
  i64 do_size(SampleSet) const override { return 1000; }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    const auto count = static_cast<i64>(config_.lengths.size());
    i64 at = 0;
    const auto put = [&](i64 batch, i64 document) {
      const i64 length = config_.lengths[static_cast<std::size_t>(document)], begin = at;
      const auto id = [&](i64 i) { return (37 * document + 11 * i + 5 * batch) % 256; };
      for (i64 i = 0; i < length; ++i, ++at) {
        row(out, at, id(i), id(i + 1), 1, config_.positions ? i : at, begin, begin + length - 1);
      }
    };
    if (config_.alone) {
      put(ordinal / count, ordinal % count);
    } else {
      for (i64 document = 0; document < count; ++document) put(ordinal, document);
    }
    for (; at < kLength; ++at) row(out, at, 0, 0, 0, 0, at, at);
  }
  static void row(const SampleBuffers& out,
                  i64 at,
                  i64 token,
                  i64 target,
                  u8 counts,
                  i64 position,
                  i64 first,
                  i64 last) {
    static_cast<i64*>(out.fields[0])[at] = token;
    static_cast<i64*>(out.fields[1])[at] = target;
    static_cast<u8*>(out.fields[2])[at] = counts;
    static_cast<i64*>(out.fields[3])[at] = position;
    static_cast<i32*>(out.fields[4])[at] = static_cast<i32>(first);
    static_cast<i32*>(out.fields[5])[at] = static_cast<i32>(last);
  }
  std::string do_fingerprint() const override { return "documents"; }

  Config config_;
};

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin([](Registrar& registrar) {
      registrar.add<Dataset, Documents>("documents", "for these tests");
    });
    return loaded;
  }();
  return *kHost;
}

const Sets& decoder() {
  static const Sets kModel = {"model.dropout=0.0",
                              "model.embedding.learned_positions=false",
                              "model.block.norm.type=\"rmsnorm\"",
                              "model.head.norm.type=\"rmsnorm\"",
                              "model.block.attention.kv_heads=2",
                              "model.block.attention.rotary.type=\"default\"",
                              "model.block.mlp.type=\"gated_mlp\"",
                              "model.block.mlp.ffn=24",
                              "precision.main=\"fp64\"",
                              "precision.compute=\"fp64\""};
  return kModel;
}

struct Packing {
  std::string name;
  std::string lengths;
  int documents;
  Sets layout = {};
};

class PackedDocuments : public ::testing::TestWithParam<Packing> {
 protected:
  static Training run(const Sets& sets) {
    TrainOptions options;
    options.steps = 2;
    options.host = &host();
    return train(tiny_config(), with(decoder(), sets), options);
  }
  static Sets data(const Packing& packing, bool alone) {
    const int samples = alone ? 2 * packing.documents : 2;
    return {"data.type=\"documents\"",
            "data.lengths=" + packing.lengths,
            std::string("data.alone=") + (alone ? "true" : "false"),
            fmt::format("batch.global={}", samples),
            "batch.micro=1"};
  }
};

TEST_P(PackedDocuments, GiveWhatEachGivesAlone) {
  const Packing& packing = GetParam();
  const Training alone = run(data(packing, true));
  const Training packed = run(with(data(packing, false), packing.layout));
  ASSERT_EQ(packed.losses.size(), alone.losses.size());
  for (std::size_t i = 0; i < alone.losses.size(); ++i) {
    EXPECT_NEAR(packed.losses[i], alone.losses[i], 1e-12 * alone.losses[i]);
    EXPECT_NEAR(packed.norms[i], alone.norms[i], 1e-12 * alone.norms[i]);
  }
  for (const auto& [name, values] : alone.gradients) {
    const std::vector<double>& others = packed.gradients.at(name);
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(others[i], values[i], 1e-12 * largest) << name << " " << i;
    }
  }
}

// On two context-parallel ranks chunks begin at positions 2, 4 and 6.
INSTANTIATE_TEST_SUITE_P(
    Bounds,
    PackedDocuments,
    ::testing::Values(
        Packing{"one_rank", "[3, 1, 4]", 3},
        Packing{"at_the_edge_of_a_chunk", "[2, 4, 2]", 3, with(kContext, method("ring"))},
        Packing{"within_a_chunk", "[3, 2, 3]", 3, with(kContext, method("ring"))},
        Packing{"in_the_last_token", "[3, 4, 1]", 3, with(kContext, method("allgather"))},
        Packing{"all_to_all", "[1, 4, 3]", 3, with(kContext, method("all_to_all"))},
        Packing{"a_sample_that_is_not_full", "[3, 3]", 2, with(kContext, method("ring"))},
        Packing{"tensor_and_rows", "[3, 1, 4]", 3, with(kTensor, {kRows})},
        Packing{"pipeline", "[3, 1, 4]", 3, {"parallel.pipeline=2", "schedule.type=\"1f1b\""}}),
    [](const auto& info) { return info.param.name; });

}  // namespace documents_test
}  // namespace tessera::testing
