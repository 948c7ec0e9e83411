#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/random.hpp"
#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace reference_attention_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

Operand zeros(const Shape& shape) {
  return fp64(shape, std::vector<double>(static_cast<std::size_t>(shape.elements())));
}

std::vector<std::vector<double>> forward(const AttentionSpec& spec,
                                         Operand q,
                                         Operand k,
                                         Operand v,
                                         Operand rows = Operand::absent(),
                                         Operand first = Operand::absent(),
                                         Operand last = Operand::absent()) {
  AttentionArgs args;
  args.spec = spec;
  return run(args,
             {std::move(q),
              std::move(k),
              std::move(v),
              std::move(rows),
              std::move(first),
              std::move(last),
              Operand::result(),
              Operand::result()});
}

TEST(ReferenceAttention, OneKeyGivesItsValue) {
  const auto found = forward({.scale = 0.5},
                             fp64({1, 1, 1, 2}, {1, 2}),
                             fp64({1, 1, 1, 2}, {3, 4}),
                             fp64({1, 1, 1, 2}, {5, 6}));
  expect_near(found[6], {5, 6});
  expect_near(found[7], {0.5 * (3 + 8)});
}

TEST(ReferenceAttention, EqualScoresAverageWhatIsSeen) {
  const auto found =
      forward({}, zeros({1, 3, 1, 1}), zeros({1, 3, 1, 1}), fp64({1, 3, 1, 1}, {3, 6, 9}));
  expect_near(found[6], {3, 4.5, 6});
  expect_near(found[7], {0, std::log(2), std::log(3)});
}

TEST(ReferenceAttention, BlindQueriesGiveZero) {
  const auto found = forward(
      {.causal_offset = -1}, zeros({1, 2, 1, 1}), zeros({1, 2, 1, 1}), fp64({1, 2, 1, 1}, {3, 6}));
  expect_near(found[6], {0, 3});
  EXPECT_EQ(found[7], (std::vector<double>{-kInf, 0}));
}

TEST(ReferenceAttention, AWindowEndsAtTheQuery) {
  const auto windowed = [](const AttentionSpec& spec) {
    return forward(spec, zeros({1, 4, 1, 1}), zeros({1, 4, 1, 1}), fp64({1, 4, 1, 1}, {1, 3, 7, 9}))
        .at(6);
  };
  expect_near(windowed({.window = 2}), {1, 2, 5, 8});
  expect_near(windowed({.window = 1}), {1, 3, 7, 9});
  // The same queries, two positions later: they see up to two keys that are not here.
  expect_near(windowed({.causal_offset = 2, .window = 3}), {11.0 / 3, 19.0 / 3, 8, 9});
}

TEST(ReferenceAttention, QueriesHaveLimitsOfTheirOwn) {
  const auto limited = [](const AttentionSpec& spec,
                          const std::vector<double>& first,
                          const std::vector<double>& last) {
    const auto limits = [](const std::vector<double>& values) {
      return values.empty() ? Operand::absent() : Operand::given({1, 3}, DType::i32, values);
    };
    const auto found = forward(spec,
                               zeros({1, 3, 1, 1}),
                               zeros({1, 4, 1, 1}),
                               fp64({1, 4, 1, 1}, {1, 3, 7, 9}),
                               Operand::absent(),
                               limits(first),
                               limits(last));
    return found.at(6);
  };
  AttentionSpec full;
  full.causal = false;
  expect_near(limited(full, {0, 1, 3}, {0, 2, 3}), {1, 5, 9});
  expect_near(limited({}, {0, 1, 1}, {3, 3, 3}), {1, 3, 5});
  expect_near(limited({}, {}, {0, 0, 1}), {1, 1, 2});
  expect_near(limited(full, {2, 2, 4}, {1, 3, 9}), {0, 8, 0});  // none, two, none
  full.window = 2;
  expect_near(limited(full, {}, {0, 1, 3}), {1, 2, 8});
  // A window counts from the query's own key, whatever `last` leaves of it.
  expect_near(limited({.window = 2}, {}, {0, 0, 0}), {1, 1, 0});
  full.window = 0;
  full.key_offset = 10;  // limits are positions in the sample
  expect_near(limited(full, {0, 11, 13}, {10, 12, 99}), {1, 5, 9});
}

TEST(ReferenceAttention, ResultsAreAsWideAsValues) {
  const auto found = forward({.scale = 0.5},
                             fp64({1, 1, 1, 2}, {1, 2}),
                             fp64({1, 1, 1, 2}, {3, 4}),
                             fp64({1, 1, 1, 3}, {5, 6, 7}));
  expect_near(found[6], {5, 6, 7});
}

TEST(ReferenceAttention, GroupedQueriesShareTheirKeys) {
  // Heads 0 and 1 read the first values, heads 2 and 3 the second.
  const auto found =
      forward({}, zeros({1, 1, 4, 1}), zeros({1, 1, 2, 1}), fp64({1, 1, 2, 1}, {7, 8}));
  expect_near(found[6], {7, 7, 8, 8});
}

TEST(ReferenceAttention, DropsByTheDocumentedWords) {
  AttentionSpec spec{.causal = false, .dropout = 0.5, .key = 99, .head_offset = 2, .key_offset = 6};
  const i64 keys = 40, row = row_id(5, 17);
  std::vector<double> values(static_cast<std::size_t>(keys));
  double expected = 0;
  int kept = 0;
  for (i64 j = 0; j < keys; ++j) {
    values[static_cast<std::size_t>(j)] = static_cast<double>(j + 1);
    const i64 key = j + 6;
    // Counter (key / 4, position, sample, head), word key % 4, kept below (1 - p) 2³².
    const auto words = Philox::words(99, {static_cast<u32>(key / 4), 17, 5, 2});
    if (words[static_cast<std::size_t>(key % 4)] < 0x80000000U) {
      expected += 2.0 * static_cast<double>(j + 1) / static_cast<double>(keys);
      ++kept;
    }
  }
  EXPECT_GT(kept, 8);
  EXPECT_LT(kept, 32);
  const auto found = forward(spec,
                             zeros({1, 1, 1, 1}),
                             zeros({1, keys, 1, 1}),
                             fp64({1, keys, 1, 1}, values),
                             integers({static_cast<double>(row)}));
  expect_near(found[6], {expected});
  expect_near(found[7], {std::log(static_cast<double>(keys))});  // of all keys, kept or not
}

TEST(ReferenceAttention, BackwardOfTwoEqualKeys) {
  // p = ½, ½; out = 4; g = 1: dv = p g; dscore = p (g v - g out) = ½ (∓ 1) · scale.
  AttentionBackwardArgs args;
  args.spec = {.scale = 2, .causal = false};
  const auto found = run(args,
                         {fp64({1, 1, 1, 1}, {0}),
                          fp64({1, 2, 1, 1}, {7, 11}),
                          fp64({1, 2, 1, 1}, {3, 5}),
                          Operand::absent(),
                          Operand::absent(),
                          Operand::absent(),
                          fp64({1, 1, 1, 1}, {4}),
                          fp64({1, 1, 1}, {std::log(2)}),
                          fp64({1, 1, 1, 1}, {1}),
                          Operand::result(),
                          Operand::result(),
                          Operand::result()});
  expect_near(found[9], {2 * 0.5 * (-7 + 11)});
  expect_near(found[10], {0, 0});  // q is 0
  expect_near(found[11], {0.5, 0.5});
}

TEST(ReferenceDropout, KeepsByTheDocumentedWords) {
  DropoutArgs args;
  args.key = 1234;
  args.p = 0.25;
  args.feature_offset = 3;
  const i64 features = 64;
  const std::vector<double> rows = {static_cast<double>(row_id(1, 2)),
                                    static_cast<double>(row_id(9, 0))};
  std::vector<double> expected;
  for (const auto& [sample, position] : {std::pair<u32, u32>{1, 2}, {9, 0}}) {
    for (u32 f = 3; f < 3 + features; ++f) {
      const auto words = Philox::words(1234, {f / 4, position, sample, 0});
      expected.push_back(10 + (words[f % 4] < 3U * 0x40000000U ? 1 / 0.75 : 0));
    }
  }
  const Shape shape{2, features};
  const auto found = run(args,
                         {fp64(shape, std::vector<double>(128, 1)),
                          fp64(shape, std::vector<double>(128, 10)),
                          integers(rows),
                          Operand::result()});
  expect_near(found[3], expected);
}

TEST(ReferenceAttention, PartsMergeByTheirWeights) {
  // Sums of exponentials 1 and 3; none and 5; 7 and none; none at all.
  const auto found = run(AttentionMergeArgs{},
                         {fp64({1, 4, 1, 2}, {8, 4, 6, 7, 0, 0, 0, 0}),
                          fp64({1, 1, 4}, {std::log(3), std::log(5), -kInf, -kInf}),
                          fp64({1, 4, 1, 2}, {4, 0, 0, 0, 1, 2, 0, 0}),
                          fp64({1, 1, 4}, {0, -kInf, std::log(7), -kInf})});
  expect_near(found[2], {7, 3, 6, 7, 1, 2, 0, 0});
  EXPECT_NEAR(found[3][0], std::log(4), 1e-15);
  EXPECT_NEAR(found[3][1], std::log(5), 1e-15);
  EXPECT_NEAR(found[3][2], std::log(7), 1e-15);
  EXPECT_EQ(found[3][3], -kInf);
}

}  // namespace reference_attention_test
}  // namespace tessera
