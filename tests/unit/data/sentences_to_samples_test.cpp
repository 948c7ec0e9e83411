// Texts through `data build` with the stage `sentences` and the tokenizer `wordpiece` to samples of
// the dataset `bert`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernel/data/build.hpp"
#include "tessera/data.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace sentences_to_samples_test {

using ::testing::UnorderedElementsAre;

constexpr i64 kLength = 32;

struct Fields {
  std::vector<i64> tokens = std::vector<i64>(kLength), segments = tokens, targets = tokens;
  std::vector<u8> mask = std::vector<u8>(kLength);
  std::vector<i32> last = std::vector<i32>(kLength);
  i64 label = 0;
  u8 label_mask = 0;

  Fields(const Dataset& data, i64 ordinal) {
    data.read(SampleSet::train,
              ordinal,
              {{tokens.data(),
                segments.data(),
                targets.data(),
                mask.data(),
                last.data(),
                &label,
                &label_mask}});
  }
};

class SentencesToSamples : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("vocab.txt",
                  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n.\na\ndog\nran\n!\ndr\nate\n"
                  "un\n##aff\n##able\n##s\nend\n");
    folder_.write("a.jsonl",
                  "{\"text\":\"The cat sat.  A dog ran!\"}\n"
                  "{\"text\":\"alone\"}\n"
                  "{\"text\":\"Dr. Cat ate.\\n\\nUnaffable dogs sat. The end\"}\n");
    const std::string file =
        folder_.write("c.toml",
                      "schema = 1\ninput = [\"a.jsonl\"]\noutput = \"wiki\"\n"
                      "tokenizer = {type = \"wordpiece\", path = \"vocab.txt\"}\n"
                      "stages = [{type = \"clean\"}, {type = \"sentences\"}]\n");
    try {
      const Config config = Config::load({file}, {}, TableArrays::numbered);
      build_corpus(BuildConfig::load(config, build_plugins()), false);
    } catch (const ConfigError& error) {
      if (std::string_view(error.what()).find("which this build is without") != std::string::npos)
        GTEST_SKIP() << error.what();
      throw;
    }
    TokenizerArguments none;
    tokenizer_ =
        make_plugin<Tokenizer>("wordpiece", "path = \"" + folder_.at("vocab.txt") + "\"\n", none);
  }
  std::shared_ptr<Dataset> open(const std::string& keys) const {
    DatasetArguments arguments{.sequence_length = kLength,
                               .seed = 1,
                               .tokenizer = tokenizer_,
                               .training_samples = 100,
                               .vocabulary = tokenizer_->vocabulary(),
                               .keep_in = ""};
    return make_plugin<Dataset>(
        "bert",
        "path = \"" + folder_.at("wiki") + "\"\nsplit = \"1,0,0\"\nshort_sequences = 0\n" + keys,
        arguments);
  }
  TestFolder folder_;
  std::shared_ptr<Tokenizer> tokenizer_;
};

TEST_F(SentencesToSamples, HalvesAreSentencesOfADocument) {
  // Less than one token may be masked.
  const auto data = open("mask_probability = 0.03\n");
  EXPECT_EQ(data->size(SampleSet::train), 2);
  EXPECT_EQ(data->content(SampleSet::train).unit,
            "documents (left out, of fewer than two sentences: 1)");
  std::set<std::string> seen;
  for (i64 i = 0; i < 200; ++i) {
    const Fields sample(*data, i);
    std::string text = sample.label == 1 ? "swapped: " : "";
    for (i64 at = 0; at <= sample.last[0]; ++at) {
      const auto id = static_cast<i32>(sample.tokens[static_cast<std::size_t>(at)]);
      text += tokenizer_->decode({id}) + (at < sample.last[0] ? " " : "");
    }
    seen.insert(text);
  }
  const std::string kFirst = "dr . cat ate .", kSecond = "un ##aff ##able dog ##s sat .",
                    kThird = "the end";
  const auto pair = [](const std::string& a, const std::string& b) {
    return "[CLS] " + a + " [SEP] " + b + " [SEP]";
  };
  EXPECT_THAT(seen,
              UnorderedElementsAre(pair("the cat sat .", "a dog ran !"),
                                   "swapped: " + pair("a dog ran !", "the cat sat ."),
                                   pair(kFirst, kSecond + " " + kThird),
                                   "swapped: " + pair(kSecond + " " + kThird, kFirst),
                                   pair(kFirst + " " + kSecond, kThird),
                                   "swapped: " + pair(kThird, kFirst + " " + kSecond)));
}

TEST_F(SentencesToSamples, WholeWordsAreMasked) {
  constexpr i64 kUn = 15, kAble = 17;
  for (const char* order : {"tessera", "megatron"}) {
    const auto data = open(std::string("order = \"") + order + "\"\n");
    int masked = 0;
    for (i64 i = 0; i < 100; ++i) {
      const Fields sample(*data, i);
      for (std::size_t at = 0; at + 2 < kLength; ++at) {
        if (sample.targets[at] != kUn) continue;
        ++masked;
        EXPECT_EQ(sample.targets[at + 1], kUn + 1);
        EXPECT_EQ(sample.targets[at + 2], kAble);
      }
    }
    EXPECT_GT(masked, 0) << order;
  }
}

}  // namespace sentences_to_samples_test
}  // namespace tessera
