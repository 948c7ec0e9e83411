// Numbers that go up by a constant, modulo the vocabulary: data for trying things out, which a
// small model learns in a few hundred steps.
#include <algorithm>
#include <tessera/data.hpp>
#include <tessera/error.hpp>
#include <tessera/plugin.hpp>
#include <tessera/random.hpp>

namespace {

using namespace tessera;

// Constant once it is made: several threads read at once.
class Ramps final : public Dataset {
 public:
  struct Config {
    i64 samples = 10000, steepest = 8;
    static void describe(Schema<Config>& s) {
      s.field("samples", &Config::samples, "samples of an epoch; a tenth more for validation")
          .at_least(10)
          .at_most(kMostSteps);
      s.field("steepest", &Config::steepest, "from 1 to this goes a token to the next")
          .at_least(1)
          .at_most(1 << 20);
    }
  };

  Ramps(const Config& config, DatasetArguments& arguments)
      : config_(config),
        length_(arguments.sequence_length),
        vocabulary_(arguments.tokenizer->vocabulary()),
        keys_{random_key(arguments.seed, "ramps.train"),
              random_key(arguments.seed, "ramps.validation"),
              random_key(arguments.seed, "ramps.test")} {
    if (vocabulary_ < 2) fail_config("data.type = \"ramps\" needs a vocabulary of two or more");
  }

  std::vector<FieldInfo> do_fields() const override {
    return {
        {"tokens", DType::i64, ""}, {"targets", DType::i64, ""}, {"loss_mask", DType::u8, "lm"}};
  }

  i64 do_size(SampleSet set) const override {
    return set == SampleSet::train ? config_.samples : config_.samples / 10;
  }

  // A function of set and ordinal. Ordinals go on beyond the first epoch.
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override {
    const u64 key = keys_[static_cast<int>(set)];
    const Philox::Words words =
        Philox::words(key, {static_cast<u32>(ordinal % size(set)), 0, 0, 0});
    const i64 first = words[0] % vocabulary_, rise = 1 + words[1] % config_.steepest;
    auto* tokens = static_cast<i64*>(out.fields[0]);
    auto* targets = static_cast<i64*>(out.fields[1]);
    for (i64 i = 0; i < length_; ++i) {
      tokens[i] = (first + i * rise) % vocabulary_;
      targets[i] = (first + (i + 1) * rise) % vocabulary_;
    }
    std::fill_n(static_cast<u8*>(out.fields[2]), length_, u8{1});
  }

  std::string do_fingerprint() const override {
    return fmt::format("ramps {:016x}: {} samples up to {}, vocabulary {}",
                       keys_[0],
                       config_.samples,
                       config_.steepest,
                       vocabulary_);
  }

 private:
  Config config_;
  i64 length_, vocabulary_;
  u64 keys_[3];  // by set
};

}  // namespace

TESSERA_PLUGIN(ramps, "0.1.0", "A dataset") {
  registrar.add<Dataset, Ramps>("ramps", "numbers that go up by a constant");
}
