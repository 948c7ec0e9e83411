// Which text a vocabulary is trained on.
#include "kernel/data/text_sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace tessera {
namespace text_sample_test {

using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

Texts documents() {
  Texts all;
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (int line = 0; line < 40 * (i % 7); ++line) {
      text += std::to_string(i) + " " + std::to_string(line) + std::string(60, 'x') + "\n";
    }
    all.push_back(text);
  }
  return all;
}

Texts sampled(i64 most, u64 seed, TextSample* out = nullptr) {
  TextSample sample(most, seed);
  for (const std::string& text : documents()) sample.add(text);
  if (out != nullptr) *out = sample;
  return sample.take();
}

std::string joined(const Texts& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::string());
}

TEST(TextSample, AllOfItWhereItFits) {
  TextSample sample(0, 0);
  const Texts runs = sampled(i64{1} << 30, 7, &sample);
  EXPECT_EQ(joined(runs), joined(documents()));
  EXPECT_EQ(sample.documents(), 50);
  EXPECT_EQ(sample.bytes(), static_cast<i64>(joined(documents()).size()));
  EXPECT_EQ(sample.kept(), sample.bytes());
  for (const std::string& run : runs) {
    EXPECT_TRUE(run.ends_with('\n'));
    EXPECT_LE(run.size(), 4096U + 70);
  }
}

TEST(TextSample, SomeRunsOfLines) {
  const Texts whole = sampled(i64{1} << 30, 7);
  TextSample sample(0, 0);
  const Texts half = sampled(200'000, 7, &sample), less = sampled(100'000, 7);
  EXPECT_LE(joined(half).size(), 200'000U);
  EXPECT_GT(joined(half).size(), 200'000U - 5000);
  EXPECT_EQ(sample.kept(), static_cast<i64>(joined(half).size()));
  // In the order of the input, and the smaller one of the larger.
  const auto part_of = [](const Texts& part, const Texts& all) {
    auto at = all.begin();
    return std::ranges::all_of(part, [&](const std::string& run) {
      at = std::find(at, all.end(), run);
      return at != all.end();
    });
  };
  EXPECT_TRUE(part_of(half, whole));
  EXPECT_TRUE(part_of(less, half));
  EXPECT_NE(sampled(200'000, 8), half);
  EXPECT_EQ(sampled(200'000, 7), half);
}

TEST(TextSample, LinesAreNotCut) {
  TextSample sample(10'000, 1);
  sample.add(std::string(20'000, 'x'));
  EXPECT_EQ(sample.kept(), 0);
  sample.add("a\nb");
  sample.add("");
  EXPECT_EQ(sample.documents(), 3);
  EXPECT_EQ(sample.bytes(), 20'003);
  EXPECT_THAT(sample.take(), ElementsAre("a\nb"));
}

}  // namespace text_sample_test
}  // namespace tessera
