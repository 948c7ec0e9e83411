// self_attention with its positions cut over context-parallel ranks against one rank, in double.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <mutex>

#include "common/error_of.hpp"
#include "tensor_parallel_support.hpp"
#include "tessera/random.hpp"
#include "tessera/zigzag.hpp"

namespace tessera::testing {
namespace context_attention_test {

constexpr i64 kSequence = 16, kHidden = 24, kHeads = 8;

struct Case {
  std::string method = "ring";
  i64 ranks = 1, kv_heads = kHeads, batch = 2, tensor = 1;
  bool causal = true;
  double dropout = 0;
  u64 deferred_seed = 0;
  i64 window = 0;
  bool documents = false;  ///< the data says where each query's document begins and ends
  i64 padding = 0;         ///< positions at the end of a sample that nobody sees
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.method << " cp" << c.ranks << " tp" << c.tensor << " K" << c.kv_heads << " b" << c.batch
       << (c.causal ? " causal" : " full") << (c.dropout > 0 ? " dropout" : "")
       << (c.documents ? " documents" : "") << " w" << c.window << " p" << c.padding;
}

// Whole samples, put together from all ranks.
struct Outcome {
  Values result, evaluated, input_gradient;
  std::map<std::string, Values> gradients;
  std::vector<GroupCounters> forward, backward, evaluation;  // of the context group, by rank
};

// This rank's rows of [b · S, width] values, in the order in which it holds them.
std::vector<std::size_t> rows_here(const Case& c, i64 rank) {
  const i64 chunk = kSequence / zigzag::chunks(c.ranks);
  std::vector<std::size_t> rows;
  for (i64 sample = 0; sample < c.batch; ++sample) {
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      const i64 first = sample * kSequence + zigzag::chunk(c.ranks, rank, half) * chunk;
      for (i64 i = 0; i < chunk; ++i) rows.push_back(static_cast<std::size_t>(first + i));
    }
  }
  return rows;
}

Values cut(const Values& whole, const std::vector<std::size_t>& rows) {
  Values part;
  for (const std::size_t row : rows) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * kHidden);
    part.insert(part.end(), begin, begin + kHidden);
  }
  return part;
}

void place(Values& whole, const Values& part, const std::vector<std::size_t>& rows) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    whole.at(rows.at(i / kHidden) * kHidden + i % kHidden) = part[i];
  }
}

/// First and last position of the document that a row of [b · S] is in: of 5, 1 and 10 positions in
/// even samples, of 9 and 7 in others.
std::pair<i64, i64> document_of(i64 row) {
  const i64 position = row % kSequence;
  if (row / kSequence % 2 == 1) return position < 9 ? std::pair{0, 8} : std::pair{9, 15};
  return position < 5 ? std::pair{0, 4} : position < 6 ? std::pair{5, 5} : std::pair{6, 15};
}

LocalWorldOptions options_of(const Case& c) {
  LocalWorldOptions options;
  options.layout = {.world = c.ranks * c.tensor, .tensor = c.tensor, .context = c.ranks};
  options.dtype = DType::fp64;
  options.batch = {c.batch, kSequence / c.ranks};
  options.deferred_seed = c.deferred_seed;
  options.values = {{"model.hidden", kHidden},
                    {"model.heads", kHeads},
                    {"model.layers", i64{1}},
                    {"model.dropout", c.dropout},
                    {"model.init_std", 0.5},
                    {"attention.kv_heads", c.kv_heads},
                    {"attention.causal", c.causal},
                    {"attention.context", c.method}};
  if (c.window > 0) options.values.emplace_back("attention.window", c.window);
  return options;
}

Outcome run(const Case& c) {
  const i64 n = c.batch * kSequence;
  const Values input = random_values(n * kHidden, 1), gradient = random_values(n * kHidden, 2);
  Outcome all;
  all.result = all.evaluated = all.input_gradient = Values(static_cast<std::size_t>(n * kHidden));
  all.forward.resize(static_cast<std::size_t>(c.ranks));
  all.backward = all.evaluation = all.forward;
  std::mutex mutex;
  local_world().run(options_of(c), [&](LocalRank& rank) {
    const auto layer = rank.build<Layer>("attention", "self_attention");
    const i64 here = rank.mesh().coordinate(Axis::context);
    ProcessGroup& group = rank.group(Axis::context);
    const std::vector<std::size_t> rows = rows_here(c, here);
    const Shape shape{static_cast<i64>(rows.size()), kHidden};
    Values ids;
    for (const std::size_t row : rows) {
      const auto r = static_cast<i64>(row);
      ids.push_back(static_cast<double>(row_id(5 + r / kSequence, r % kSequence)));
    }
    const Tensor row_ids = rank.tensor({shape[0]}, DType::i64, ids);
    Values begins, ends;
    for (const std::size_t row : rows) {
      const auto [begin, end] = document_of(static_cast<i64>(row));
      begins.push_back(static_cast<double>(begin));
      ends.push_back(static_cast<double>(end));
    }
    const Tensor first = rank.tensor({shape[0]}, DType::i32, begins);
    const Tensor last = rank.tensor({shape[0]}, DType::i32, ends);
    const Tensor seen =
        rank.tensor({shape[0]},
                    DType::i32,
                    Values(rows.size(), static_cast<double>(kSequence - c.padding - 1)));
    const Tensor x = rank.tensor(shape, cut(input, rows));
    GroupCounters forward;
    const auto body = [&](Context& cx, const Tensor& hidden) {
      group.reset_counters();
      Bundle bundle = rank.bundle();
      bundle[rank.slot("hidden")] = hidden;
      bundle[rank.slot("row_ids")] = row_ids;
      if (c.padding > 0) bundle[rank.slot("last")] = seen;
      if (c.documents) {
        bundle[rank.slot("first")] = first;
        bundle[rank.slot("last")] = last;
      }
      layer->phases().at(0).run(cx, bundle);
      forward = group.counters();
      group.reset_counters();
      return bundle[rank.slot("hidden")];
    };
    const Pass pass = run_pass(rank, x, rank.tensor(shape, cut(gradient, rows)), body);
    const GroupCounters backward = group.counters();
    Context evaluation = rank.context();
    evaluation.mode = Mode::evaluate;
    const GroupCounters trained = forward;
    const Tensor evaluated = body(evaluation, x);

    // Before the lock: reading runs delayed work, which may wait for other ranks.
    const Values result = read(pass.result), result_evaluated = read(evaluated);
    const Values input_gradient = read(pass.input_gradient);
    std::map<std::string, Values> gradients;
    for (const Parameter* p : rank.parameters()) gradients[p->name] = read(p->grad);
    const std::lock_guard lock(mutex);
    if (rank.mesh().coordinate(Axis::tensor) != 0) return;
    place(all.result, result, rows);
    place(all.evaluated, result_evaluated, rows);
    place(all.input_gradient, input_gradient, rows);
    for (const auto& [name, part] : gradients) {
      Values& sum = all.gradients[name];
      sum.resize(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    all.forward[static_cast<std::size_t>(here)] = trained;
    all.backward[static_cast<std::size_t>(here)] = backward;
    all.evaluation[static_cast<std::size_t>(here)] = forward;
  });
  return all;
}

void expect_near(const Values& got, const Values& want, std::string_view what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-12 * (1 + std::abs(want[i]))) << what << " element " << i;
  }
}

class ContextAttention : public ::testing::TestWithParam<Case> {};

TEST_P(ContextAttention, EqualsOneRank) {
  Case alone = GetParam();
  alone.ranks = 1;
  alone.deferred_seed = 0;
  const Outcome want = run(alone), got = run(GetParam());
  expect_near(got.result, want.result, "result");
  expect_near(got.evaluated, want.evaluated, "result of an evaluation");
  expect_near(got.input_gradient, want.input_gradient, "gradient of the input");
  ASSERT_EQ(got.gradients.size(), 4U);
  for (const auto& [name, values] : want.gradients) {
    expect_near(got.gradients.at(name), values, name);
  }
  if (GetParam().dropout > 0) {
    EXPECT_NE(want.result, want.evaluated) << "dropout did nothing: the test shows nothing";
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* method : {"ring", "allgather", "all_to_all"}) {
    for (const i64 ranks : {2, 4}) {
      for (const bool causal : {true, false}) {
        for (const double dropout : {0.0, 0.3}) {
          for (const i64 batch : {1, 2}) {
            for (const i64 kv_heads : {8, 4}) {
              all.push_back({.method = method,
                             .ranks = ranks,
                             .kv_heads = kv_heads,
                             .batch = batch,
                             .causal = causal,
                             .dropout = dropout});
            }
          }
        }
      }
    }
    all.push_back({.method = method, .ranks = 2, .kv_heads = 4, .tensor = 2, .dropout = 0.3});
    all.push_back({.method = method, .ranks = 4, .tensor = 2, .dropout = 0.3});
    for (const u64 seed : {1, 2, 3}) {
      all.push_back(
          {.method = method, .ranks = 4, .kv_heads = 4, .dropout = 0.3, .deferred_seed = seed});
    }
  }
  for (const char* method : {"ring", "allgather", "all_to_all"}) {
    for (const i64 ranks : {2, 4}) {
      const Case with{.method = method, .ranks = ranks, .dropout = 0.3};
      for (const i64 window : {1, 3, 6, 100}) {
        all.push_back(with);
        all.back().window = window;
      }
      for (const bool causal : {true, false}) {
        all.push_back(with);
        all.back().documents = true;
        all.back().causal = causal;
        all.back().window = causal ? 3 : 0;
      }
    }
  }
  // Windows after the last position that is seen, and across it.
  for (const char* method : {"ring", "allgather", "all_to_all"}) {
    all.push_back({.method = method, .ranks = 2, .window = 3, .padding = 9});
    all.push_back({.method = method, .ranks = 4, .dropout = 0.3, .window = 5, .padding = 6});
  }
  // No part of it is in every rank's reach, and one position a chunk.
  all.push_back({.method = "ring", .ranks = 8, .kv_heads = 2, .dropout = 0.3});
  all.push_back({.method = "allgather", .ranks = 8, .kv_heads = 1, .dropout = 0.3});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Methods, ContextAttention, ::testing::ValuesIn(cases()));

// What each method sends, a layer: M = the bytes of a rank's keys and values.
constexpr i64 kBytes = 8;
i64 message(const Case& c) {
  return 2 * c.batch * (kSequence / c.ranks) * c.kv_heads * (kHidden / kHeads) * kBytes;
}

void expect_traffic(const GroupCounters& counters,
                    const std::map<CollectiveKind, GroupCounters::Entry>& want) {
  for (int k = 0; k <= static_cast<int>(CollectiveKind::barrier); ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    const auto found = want.find(kind);
    const GroupCounters::Entry expected =
        found == want.end() ? GroupCounters::Entry{} : found->second;
    EXPECT_EQ(counters[kind].calls, expected.calls) << collective_name(kind);
    EXPECT_EQ(counters[kind].bytes, expected.bytes) << collective_name(kind);
  }
}

TEST(ContextTraffic, RingHandsKeysOnAndGradientsBehindThem) {
  for (const i64 c : {2, 4}) {
    const Case ring{.method = "ring", .ranks = c, .kv_heads = 4};
    const Outcome all = run(ring);
    for (i64 rank = 0; rank < c; ++rank) {
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, c));
      const auto at = static_cast<std::size_t>(rank);
      const GroupCounters::Entry once{c - 1, (c - 1) * message(ring)};
      expect_traffic(all.forward[at], {{CollectiveKind::exchange, once}});
      expect_traffic(all.evaluation[at], {{CollectiveKind::exchange, once}});
      expect_traffic(all.backward[at],
                     {{CollectiveKind::exchange, {2 * c - 1, (2 * c - 1) * message(ring)}}});
    }
  }
}

TEST(ContextTraffic, AllgatherGathersTwiceAndScattersGradients) {
  for (const i64 c : {2, 4}) {
    const Case gather{.method = "allgather", .ranks = c, .kv_heads = 4};
    const Outcome all = run(gather);
    for (std::size_t at = 0; at < static_cast<std::size_t>(c); ++at) {
      const GroupCounters::Entry keys{1, message(gather)};
      expect_traffic(all.forward[at], {{CollectiveKind::all_gather, keys}});
      expect_traffic(all.evaluation[at], {{CollectiveKind::all_gather, keys}});
      expect_traffic(all.backward[at],
                     {{CollectiveKind::all_gather, keys},
                      {CollectiveKind::reduce_scatter, {1, c * message(gather)}}});
    }
  }
}

TEST(ContextTraffic, AllToAllSendsProjectionsAndResults) {
  for (const double dropout : {0.0, 0.3}) {
    for (const i64 c : {2, 4}) {
      const Case exchange{.method = "all_to_all", .ranks = c, .kv_heads = 4, .dropout = dropout};
      const Outcome all = run(exchange);
      const i64 rows = exchange.batch * kSequence / c;
      const i64 results = rows * kHidden * kBytes;
      const i64 all_rows = results + message(exchange) + results;
      const GroupCounters::Entry both{2, all_rows / c * (c - 1)};  // a rank keeps its own rows
      for (std::size_t at = 0; at < static_cast<std::size_t>(c); ++at) {
        std::map<CollectiveKind, GroupCounters::Entry> forward{{CollectiveKind::all_to_all, both}};
        expect_traffic(all.evaluation[at], forward);
        expect_traffic(all.backward[at], forward);
        if (dropout > 0) forward[CollectiveKind::all_gather] = {1, rows * 8};  // row ids
        expect_traffic(all.forward[at], forward);
      }
    }
  }
}

// A window and documents change what rows see, or the tests above show nothing.
TEST(ContextAttentionLimits, ChangeTheResult) {
  const Outcome all = run({});
  EXPECT_NE(run({.window = 3}).result, all.result);
  EXPECT_EQ(run({.window = kSequence}).result, all.result);
  EXPECT_NE(run({.documents = true}).result, all.result);
  EXPECT_NE(run({.causal = false, .documents = true}).result, run({.causal = false}).result);
}

TEST(ContextAttentionErrors, AWindowEndsAtThePosition) {
  EXPECT_THAT(error_of<ConfigError>([] { run({.causal = false, .window = 3}); }),
              ::testing::HasSubstr("window: it ends at each position: it needs causal = true"));
}

TEST(ContextAttentionErrors, HeadsMustDivideForAllToAll) {
  const auto error = [](const Case& c) -> std::string {
    return error_of<ConfigError>([&] { run(c); });
  };
  EXPECT_THAT(
      error({.method = "all_to_all", .ranks = 4, .kv_heads = 2}),
      ::testing::HasSubstr("deals the 2 of a tensor-parallel rank to parallel.context = 4"));
  EXPECT_THAT(
      error({.method = "all_to_all", .ranks = 4, .kv_heads = 4, .tensor = 4}),
      ::testing::HasSubstr("deals the 2 of a tensor-parallel rank to parallel.context = 4"));
}

}  // namespace context_attention_test
}  // namespace tessera::testing
