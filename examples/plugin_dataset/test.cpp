// Samples depend on seed, set and ordinal only; targets are the next tokens; epochs repeat.
#include <cstdio>
#include <exception>
#include <tessera/data.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

constexpr i64 kLength = 5;

struct Sample {
  std::vector<i64> tokens = std::vector<i64>(kLength), targets = tokens;
  std::vector<u8> mask = std::vector<u8>(kLength);
  bool operator==(const Sample&) const = default;
};

Sample read(const Dataset& data, SampleSet set, i64 ordinal) {
  Sample sample;
  data.read(set, ordinal, {{sample.tokens.data(), sample.targets.data(), sample.mask.data()}});
  return sample;
}

bool failed(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not so: %s\n", what);
  return !holds;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  TokenizerArguments none;
  DatasetArguments arguments{
      .sequence_length = kLength, .seed = 7, .tokenizer = world.make<Tokenizer>("byte", none)};
  const auto make = [&](u64 seed) {
    arguments.seed = seed;
    return world.make<Dataset>("ramps", arguments, {{"samples", 20}, {"steepest", 3}});
  };
  const auto data = make(7);
  bool wrong = failed(data->size(SampleSet::train) == 20, "the size is that of the key");
  wrong |= failed(data->size(SampleSet::validation) == 2, "a tenth is for validation");
  const Sample third = read(*data, SampleSet::train, 3);
  for (i64 i = 0; i + 1 < kLength; ++i) {
    const auto at = static_cast<std::size_t>(i);
    wrong |= failed(third.targets[at] == third.tokens[at + 1], "a target is the next token");
    const i64 rise = (third.tokens[at + 1] - third.tokens[at] + 256) % 256;
    wrong |= failed(rise >= 1 && rise <= 3, "tokens rise by 1 to steepest");
  }
  wrong |= failed(third.mask == std::vector<u8>(kLength, 1), "all targets count");
  wrong |= failed(read(*make(7), SampleSet::train, 3) == third, "a seed gives the same samples");
  wrong |= failed(read(*data, SampleSet::train, 23) == third, "an epoch is as the one before");
  wrong |= failed(read(*make(8), SampleSet::train, 3) != third, "another seed gives others");
  wrong |= failed(read(*data, SampleSet::validation, 0) != read(*data, SampleSet::train, 0),
                  "validation has samples of its own");
  wrong |= failed(make(8)->fingerprint() != data->fingerprint(), "a fingerprint tells data apart");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
