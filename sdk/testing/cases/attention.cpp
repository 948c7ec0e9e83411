#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cases.hpp"

namespace tessera::testing {
namespace {

struct AttentionSize {
  i64 batch, queries, keys, heads, kv_heads, features;
  i64 values = 0;  ///< features of a value; 0: as many
};

/// Limits of each query; none: absent.
struct Limits {
  std::vector<double> first, last;
};

Operand limit(const AttentionSize& s, const std::vector<double>& values) {
  if (values.empty()) return Operand::absent();
  return Operand::given({s.batch, s.queries}, DType::i32, values);
}

void add_size(Cases& cases,
              const std::string& name,
              const AttentionSize& s,
              const AttentionSpec& spec,
              const Limits& limits = {}) {
  const DType statistic = cases.statistic();
  const i64 values = s.values > 0 ? s.values : s.features;
  const Shape query{s.batch, s.queries, s.heads, s.features};
  const Shape key{s.batch, s.keys, s.kv_heads, s.features};
  const Shape value{s.batch, s.keys, s.kv_heads, values};
  const Shape result{s.batch, s.queries, s.heads, values};
  for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
    const auto random = [&](const Shape& shape) { return cases.random(shape).in(in_memory); };
    const auto blank = [&](const Shape& shape) {
      return Operand::blank(shape, cases.dtype).in(in_memory);
    };
    const auto rows = [&] {
      return spec.dropout > 0 ? cases.rows(s.batch * s.queries, s.queries) : Operand::absent();
    };
    const std::string variant = name + (in_memory == InMemory::padded ? " strides" : "");
    // Probabilities and their gradients are factors of products. An exponential that is 3e-7 off
    // moves lse, a logarithm, by as much, however small lse is.
    const OpOptions options{.tolerance = {.relative = 5e-6, .absolute = 4e-7},
                            .inner_rounding = 4e-3};
    AttentionArgs forward;
    forward.spec = spec;
    cases.add(variant,
              forward,
              {random(query),
               random(key),
               random(value),
               rows(),
               limit(s, limits.first),
               limit(s, limits.last),
               blank(result),
               Operand::result()},
              options);
    // lse and out are taken as given: with the keys cut over ranks they belong to all keys.
    const double level = std::log(static_cast<double>(s.keys) + 1);
    AttentionBackwardArgs backward;
    backward.spec = spec;
    cases.add(variant,
              backward,
              {random(query),
               random(key),
               random(value),
               rows(),
               limit(s, limits.first),
               limit(s, limits.last),
               random(result),
               cases.random({s.batch, s.heads, s.queries}, statistic, level, level + 1),
               random(result),
               blank(query),
               blank(key),
               blank(value)},
              options);
  }
}

// Some rows saw no key on one side or on both; there out = 0 and lse = -inf.
void add_merge(Cases& cases, const AttentionSize& s) {
  const DType statistic = cases.statistic();
  const Shape shape{s.batch, s.queries, s.heads, s.features};
  for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
    std::vector<Operand> operands;
    for (const i64 blind : {3, 5}) {  // every 3 or 5 rows
      Operand out = cases.random(shape).in(in_memory);
      Operand lse = cases.random({s.batch, s.heads, s.queries}, statistic, -20, 20);
      for (i64 row = 0; row < s.batch * s.heads * s.queries; row += blind) {
        const i64 sample = row / (s.heads * s.queries), head = row / s.queries % s.heads;
        const i64 at = (sample * s.queries + row % s.queries) * s.heads + head;
        lse.values[static_cast<std::size_t>(row)] = -std::numeric_limits<double>::infinity();
        std::fill_n(out.values.begin() + at * s.features, s.features, 0.0);
      }
      operands.push_back(std::move(out));
      operands.push_back(std::move(lse));
    }
    cases.add(fmt::format("b{} s{} H{} d{}{}",
                          s.batch,
                          s.queries,
                          s.heads,
                          s.features,
                          in_memory == InMemory::padded ? " strides" : ""),
              AttentionMergeArgs{},
              operands,
              {.any_threads = true});
  }
}

// Windows across blocks and within one, of one key, and of parts of the keys; limits of each query,
// as documents and padding have them.
void add_spans(Cases& cases, const AttentionSpec& causal) {
  const AttentionSize size{2, 150, 150, 4, 2, 24};
  for (const i64 window : {1, 7, 64, 100, 1000}) {
    AttentionSpec spec = causal;
    spec.window = window;
    add_size(cases, fmt::format("window {}", window), size, spec);
    spec.dropout = 0.2;
    spec.key = 77;
    spec.key_offset = 96;  // keys 96 to 149 of a sample, all queries of it
    spec.causal_offset = -96;
    add_size(cases, fmt::format("window {} of a part", window), {1, 150, 54, 2, 1, 16}, spec);
  }
  // Documents of 1, 40 and 109 positions, and of 90 and 60; then padding after 33 and 150 keys.
  Limits documents, padding;
  for (const i64 sample : {0, 1}) {
    for (i64 i = 0; i < size.queries; ++i) {
      const i64 begins = sample == 0 ? (i < 1 ? 0 : i < 41 ? 1 : 41) : (i < 90 ? 0 : 90);
      const i64 ends = sample == 0 ? (i < 1 ? 0 : i < 41 ? 40 : 149) : (i < 90 ? 89 : 149);
      documents.first.push_back(static_cast<double>(begins));
      documents.last.push_back(static_cast<double>(ends));
      padding.last.push_back(sample == 0 ? 32 : 149);
    }
  }
  AttentionSpec full = causal;
  full.causal = false;
  AttentionSpec part = full, window = causal;
  part.key_offset = 30;
  window.window = 20;
  add_size(cases, "documents", size, causal, {documents.first, {}});
  add_size(cases, "documents, both ways", size, full, documents);
  add_size(cases, "a part of documents", {2, 150, 80, 4, 2, 24}, part, documents);
  add_size(cases, "documents in a window", size, window, documents);
  add_size(cases, "padding", size, full, padding);
  add_size(cases, "padding, causal", size, causal, padding);
  add_size(cases, "padding in a window", size, window, padding);
  // A batch of caches that are 1, 64 and 130 long, of which the last one token is new.
  AttentionSpec cached = full;
  cached.window = 50;
  const AttentionSize batch{3, 1, 150, 4, 2, 24};
  add_size(cases, "caches", batch, full, {{}, {0, 63, 129}});
  add_size(cases, "caches in a window", batch, cached, {{}, {0, 63, 129}});
}

}  // namespace

void add_attention_cases(Cases& cases) {
  AttentionSpec causal;
  causal.scale = 0.7;
  AttentionSpec full = causal;
  full.causal = false;
  AttentionSpec dropped = causal;
  dropped.dropout = 0.2;
  dropped.key = 0xFEDCBA9876543210;
  dropped.head_offset = 3;
  dropped.key_offset = 5;
  const AttentionSize sizes[] = {{1, 1, 1, 1, 1, 1},
                                 {2, 3, 3, 4, 2, 17},
                                 {1, 33, 33, 3, 3, 8},
                                 {2, 17, 17, 4, 1, 64},
                                 {1, 127, 127, 2, 2, 33},
                                 {1, 150, 150, 1, 1, 16},
                                 {1, 70, 150, 2, 1, 96}};
  for (const AttentionSize& s : sizes) {
    const std::string name = fmt::format(
        "b{} sq{} sk{} H{} K{} d{}", s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.features);
    add_size(cases, name, s, causal);
    add_size(cases, name + " full", s, full);
    add_size(cases, name + " dropout", s, dropped);
    add_merge(cases, s);
  }
  AttentionSpec cached = causal;
  cached.causal_offset = 20;
  add_size(cases, "one query of a cache", {2, 1, 21, 2, 1, 17}, cached);
  AttentionSpec later = causal;
  later.causal_offset = -4;  // the first four queries see nothing
  add_size(cases, "blind queries", {1, 9, 7, 2, 2, 5}, later);
  AttentionSpec past = causal;
  past.causal_offset = 100;
  add_size(cases, "all keys in the past", {1, 5, 33, 2, 2, 5}, past);
  add_size(cases, "narrow values", {2, 70, 70, 4, 2, 24, 16}, dropped);
  add_size(cases, "wide values", {1, 33, 70, 2, 1, 17, 40}, full);
  add_spans(cases, causal);
  AttentionSpec steep = causal;
  steep.scale = 60;  // overflows without subtracting the maximum
  AttentionArgs args;
  args.spec = steep;
  cases.add("steep",
            args,
            {cases.random({1, 9, 2, 33}, -2, 2),
             cases.random({1, 9, 2, 33}, -2, 2),
             cases.random({1, 9, 2, 33}),
             Operand::absent(),
             Operand::absent(),
             Operand::absent(),
             Operand::result(),
             Operand::result()},
            {.tolerance = {.relative = 2e-4}, .inner_rounding = 4e-3});
}

}  // namespace tessera::testing
