// What generation keeps of each earlier token, as the device counts bytes.
#include <gtest/gtest.h>

#include "invariant_support.hpp"
#include "tessera/device/caching_allocator.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace cache_bytes_test {

// Powers of two, so that the allocator rounds no cache up.
constexpr i64 kSequences = 64, kCapacity = 8, kLayers = 2;

// Every rank's bytes a token and layer.
void expect_bytes(i64 expected, const Sets& sets) {
  on_ranks(tiny_config(),
           with(sets,
                {"batch.global=1",
                 "batch.micro=1",
                 fmt::format("batch.sequence_length={}", kCapacity),
                 fmt::format("model.layers={}", kLayers)}),
           [&](RankRun& run, Store*) {
             const SequenceCache::Run one = {.first = kSequences - 1};
             const std::vector<i32> token = {1};
             // What a first run makes for all later ones is no cache.
             run.evaluation().logits(token, *run.evaluation().make_cache(kSequences), one);

             const i64 before = run.device().memory().total;
             const auto cache = run.evaluation().make_cache(kSequences);
             run.evaluation().logits(token, *cache, one);
             const i64 positions = CachingAllocator::rounded(cache->positions().bytes());
             const i64 taken = run.device().memory().total - before - positions;
             EXPECT_EQ(taken, expected * kLayers * kSequences * kCapacity);
           });
}

const Sets kTensor = {"parallel.tensor=2"};
const Sets kLatent = {"model.embedding.learned_positions=false",
                      "model.block.attention.type=\"latent_attention\"",
                      "model.block.attention.kv_latent=8",
                      "model.block.attention.fixed_size=6",
                      "model.block.attention.rotary_size=4",
                      "model.block.attention.value_size=5"};

// 2 · kv_heads · head_size values of four bytes; a rank has its heads only.
TEST(CacheBytes, OfKeysAndValues) {
  const Sets grouped = {"model.block.attention.kv_heads=2"};
  expect_bytes(2 * 4 * 4 * 4, {});
  expect_bytes(2 * 2 * 4 * 4, grouped);
  expect_bytes(2 * 1 * 4 * 4, with(grouped, kTensor));
  expect_bytes(2 * 2 * 8 * 4, with(grouped, {"model.block.attention.head_size=8"}));
  expect_bytes(2 * 2 * 4 * 2, with(grouped, {"precision.compute=\"bf16\""}));
}

// kv_latent + rotary_size values, whole on every rank, whatever the heads are.
TEST(CacheBytes, OfLatents) {
  expect_bytes((8 + 4) * 4, kLatent);
  expect_bytes((8 + 4) * 4, with(kLatent, {"model.heads=8"}));
  expect_bytes((8 + 4) * 4, with(kLatent, kTensor));
  expect_bytes((8 + 4) * 2, with(kLatent, {"precision.compute=\"bf16\""}));
}

}  // namespace cache_bytes_test
}  // namespace tessera::testing
