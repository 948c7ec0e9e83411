#include "kernel/train/run/meaning.hpp"

#include <gmock/gmock.h>

#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace meaning_test {

using testing::error_of;
using ::testing::HasSubstr;
using testing::resolved;
const std::string kBase(testing::kLeast);

struct Words : Tokenizer {
  explicit Words(std::string fingerprint) : fingerprint_(std::move(fingerprint)) {}
  i64 do_vocabulary() const override { return 1; }
  std::string do_fingerprint() const override { return fingerprint_; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>&) const override { return {}; }
  std::string fingerprint_;
};

Meaning compare(const CheckpointInfo& info, const std::vector<std::string>& sets = {}) {
  const Words words("words: 1");
  return compare_meaning(info, *resolved(kBase, sets).tree, &words);
}

CheckpointInfo stored() {
  CheckpointInfo info;
  info.tokenizer = "words: 1";
  info.structure = structure_of(*resolved(kBase).tree);
  return info;
}

TEST(Meaning, IsTheSameWithEqualKeysAndTokenizer) {
  const Meaning same = compare(stored(), {"model.dropout=0.5"});
  EXPECT_TRUE(same.same());
  EXPECT_TRUE(same.tokenizer_known);
  CheckpointInfo other = stored();
  other.tokenizer = "words: 2";
  EXPECT_EQ(
      compare(other, {"model.block.norm.eps=0.1"}).text(),
      "\n  model.block.norm.eps: 1e-05, now 0.1\n  tokenizer: \"words: 2\", now \"words: 1\"");
  // Somebody else's checkpoint: a line of its own could look like one of the program's.
  other.tokenizer = "2\n3";
  other.structure["model.block.norm.eps"] = "1\n2";
  EXPECT_EQ(compare(other).text(),
            "\n  model.block.norm.eps: 1\\n2, now 1e-05\n  tokenizer: \"2\\n3\", now \"words: 1\"");
}

// The text says so, and does not guess.
TEST(Meaning, AModelFromElsewhereMayNotSayItsTokenizer) {
  CheckpointInfo foreign = stored();
  foreign.tokenizer.clear();
  const Meaning meaning = compare(foreign);
  EXPECT_TRUE(meaning.same());
  EXPECT_FALSE(meaning.tokenizer_known);
  ::testing::internal::CaptureStderr();
  warn_of_unknown("ckpt/step-1", meaning);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ckpt/step-1 does not say which tokenizer it was trained with; this one is "
                        "\"words: 1\""));
}

TEST(Meaning, AllowedIsWhatANameOrAPatternNames) {
  CheckpointInfo other = stored();
  other.tokenizer = "words: 2";
  Meaning meaning = compare(other, {"model.block.norm.eps=0.1"});
  meaning.allow({"tokenizer"});
  EXPECT_EQ(meaning.text(), "\n  model.block.norm.eps: 1e-05, now 0.1");
  EXPECT_THAT(
      error_of([&] { meaning.allow({"tokenizer"}); }),
      HasSubstr("checkpoint.init_changes: \"tokenizer\" names nothing that differs from the "
                "checkpoint; what differs:\n  model.block.norm.eps"));
  meaning.allow({"model.*"});
  EXPECT_TRUE(meaning.same());
}

}  // namespace meaning_test
}  // namespace tessera
