// Attention on the emulator where the kit's cases do not go: all sizes of tiles, offsets across
// tiles, random words that do not begin with a tile, memory after the last visible key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "tessera/device/core_ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/common/environment.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace cuda_attention_test {

using testing::InMemory;
using testing::OpCase;
using testing::Operand;

struct Size {
  i64 samples, queries, keys, heads, kv_heads, features;
  i64 causal_offset = 0;
  double dropout = 0;
  i64 key_offset = 0;
  bool causal = true;
};

/// Operands of forward and backward; keys and values are NaN from `readable` on.
class CaseMaker {
 public:
  CaseMaker(DType dtype, const Size& size, InMemory in_memory)
      : dtype_(dtype),
        statistic_(dtype == DType::fp64 ? DType::fp64 : DType::fp32),
        size_(size),
        in_memory_(in_memory),
        query_{size.samples, size.queries, size.heads, size.features},
        key_{size.samples, size.keys, size.kv_heads, size.features},
        readable_(size.keys) {
    spec_.scale = 0.3;
    spec_.causal = size.causal;
    spec_.causal_offset = size.causal_offset;
    spec_.dropout = size.dropout;
    spec_.key = 0x123456789abcdef;
    spec_.head_offset = 2;
    spec_.key_offset = size.key_offset;
    options_ = {.tolerance = {.relative = 5e-6, .absolute = 4e-7}, .inner_rounding = 4e-3};
    if (dtype == DType::fp64) options_.tolerance = {1e-12, 1e-14};
  }

  CaseMaker& readable(i64 keys) {
    readable_ = keys;
    return *this;
  }
  /// One value of v, one of grad and of q, and a whole key are NaN.
  CaseMaker& some_nan() {
    some_nan_ = true;
    return *this;
  }
  OpCase forward() {
    AttentionArgs args;
    args.spec = spec_;
    return op_case("forward",
                   args,
                   {random(query_),
                    keys(),
                    values(),
                    rows(),
                    Operand::absent(),
                    Operand::absent(),
                    blank(query_),
                    Operand::result()},
                   options_);
  }
  OpCase backward() {
    AttentionBackwardArgs args;
    args.spec = spec_;
    const double level = std::log(static_cast<double>(size_.keys) + 1);
    const Shape rows_of_scores{size_.samples, size_.heads, size_.queries};
    return op_case("backward",
                   args,
                   {with_nan(random(query_), size_.queries - 9, 2),
                    keys(),
                    values(),
                    rows(),
                    Operand::absent(),
                    Operand::absent(),
                    random(query_),
                    Operand::random(rows_of_scores, statistic_, ++seed_, level, level + 1),
                    with_nan(random(query_), size_.queries - 5, 3),
                    blank(query_),
                    blank(key_),
                    blank(key_)},
                   options_);
  }

 private:
  Operand random(const Shape& shape) {
    return Operand::random(shape, dtype_, ++seed_).in(in_memory_);
  }
  Operand keys() {
    Operand made = random(key_);
    const auto each = static_cast<std::size_t>(size_.keys * size_.kv_heads * size_.features);
    const auto first = static_cast<std::size_t>(readable_ * size_.kv_heads * size_.features);
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      if (i % each >= first) made.values[i] = std::numeric_limits<double>::quiet_NaN();
    }
    return with_nan(std::move(made), size_.keys - 12, 1);
  }
  Operand values() {
    Operand made = random(key_);
    made.values = keys().values;
    return with_nan(std::move(made), size_.keys - 20, 4);
  }
  /// NaN in all samples and heads.
  Operand with_nan(Operand made, i64 position, i64 feature) const {
    if (!some_nan_) return made;
    const i64 positions = made.shape[1], heads = made.shape[2], last = made.shape[3];
    for (i64 sample = 0; sample < made.shape[0]; ++sample) {
      for (i64 head = 0; head < heads; ++head) {
        const i64 at = ((sample * positions + position) * heads + head) * last + feature;
        made.values[static_cast<std::size_t>(at)] = std::numeric_limits<double>::quiet_NaN();
      }
    }
    return made;
  }
  Operand blank(const Shape& shape) const { return Operand::blank(shape, dtype_).in(in_memory_); }
  Operand rows() const {
    if (size_.dropout == 0) return Operand::absent();
    std::vector<double> ids;
    for (i64 row = 0; row < size_.samples * size_.queries; ++row) {
      ids.push_back(static_cast<double>(row_id(7 + row / size_.queries, row % size_.queries)));
    }
    return Operand::given({size_.samples * size_.queries}, DType::i64, ids);
  }

  DType dtype_, statistic_;
  Size size_;
  InMemory in_memory_;
  Shape query_, key_;
  i64 readable_;
  bool some_nan_ = false;
  AttentionSpec spec_;
  testing::OpOptions options_;
  u64 seed_ = 77;
};

class CudaAttention : public ::testing::TestWithParam<DType> {
 protected:
  void expect_agreement(const Size& size) {
    for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
      SCOPED_TRACE(fmt::format("{} queries, {} keys, {} of {} heads, {} features",
                               size.queries,
                               size.keys,
                               size.kv_heads,
                               size.heads,
                               size.features));
      CaseMaker cases(GetParam(), size, in_memory);
      EXPECT_EQ(testing::op_check(*device_, *reference_, cases.forward()), "");
      EXPECT_EQ(testing::op_check(*device_, *reference_, cases.backward()), "");
    }
  }

  std::shared_ptr<Device> device_ = test_device("cuda_emulated");
  std::shared_ptr<Device> reference_ = test_device("reference");
};

TEST_P(CudaAttention, HasHeadsOfAllSizes) {
  for (const i64 features : {1, 24, 65, 100, 128}) expect_agreement({1, 40, 40, 2, 1, features});
  if (GetParam() == DType::fp64) return;
  for (const i64 features : {129, 200, 256}) expect_agreement({1, 40, 40, 2, 2, features});
}

TEST_P(CudaAttention, HasOffsetsAcrossTiles) {
  expect_agreement({1, 70, 140, 2, 1, 40, 70});
  expect_agreement({1, 150, 70, 2, 1, 40, -70});
  expect_agreement({1, 1, 140, 2, 2, 64, 139});  // one query of a cache
  expect_agreement({1, 9, 9, 2, 1, 8, -20});     // no query sees a key
  expect_agreement({1, 5, 0, 2, 1, 8});
  expect_agreement({1, 0, 5, 2, 1, 8});
}

TEST_P(CudaAttention, DropsByTheWordsOfGlobalKeys) {
  for (const i64 key_offset : {1, 3, 8}) {
    Size size{2, 9, 70, 2, 1, 24, 30, 0.4, key_offset};
    expect_agreement(size);
    size.causal = false;
    expect_agreement(size);
  }
}

TEST_P(CudaAttention, DropsInTheLargestTiles) {
  if (GetParam() != DType::fp64) expect_agreement({2, 70, 90, 4, 2, 200, 20, 0.3, 3});
}

TEST_P(CudaAttention, DoesNotReadKeysThatNobodySees) {
  CaseMaker cases(GetParam(), {1, 3, 100, 2, 2, 16, 17}, InMemory::dense);
  cases.readable(20);
  EXPECT_EQ(testing::op_check(*device_, *reference_, cases.forward()), "");
  EXPECT_EQ(testing::op_check(*device_, *reference_, cases.backward()), "");
}

TEST_P(CudaAttention, HasNaNWhereReferenceHasIt) {
  for (const i64 features : {24, 128, 200}) {
    if (features > 128 && GetParam() == DType::fp64) continue;
    for (const bool causal : {true, false}) {
      CaseMaker cases(GetParam(), {2, 70, 90, 2, 1, features, 20, 0, 0, causal}, InMemory::dense);
      cases.some_nan();
      EXPECT_EQ(testing::op_check(*device_, *reference_, cases.forward()), "");
      EXPECT_EQ(testing::op_check(*device_, *reference_, cases.backward()), "");
    }
  }
}

TEST_P(CudaAttention, RefusesLargerHeads) {
  const i64 most = GetParam() == DType::fp64 ? 128 : 256;
  CaseMaker cases(GetParam(), {1, 1, 1, 1, 1, most + 1}, InMemory::dense);
  EXPECT_THAT(testing::error_of([&] { testing::run_op(*device_, cases.forward()); }),
              ::testing::HasSubstr(
                  fmt::format("attention on cuda is for heads of up to {} features in {}, has {}",
                              most,
                              dtype_name(GetParam()),
                              most + 1)));
}

// Capability 8.6: a block has 99 KiB of shared memory.
TEST_P(CudaAttention, RunsOnSmallerGpusOrSaysWhatItTakes) {
  const testing::EnvironmentVariable capability("TESSERA_EMULATED_CAPABILITY", "86");
  // A thread of its own, as ranks are, has not asked another GPU for memory.
  std::thread([&] {
    device_ = test_device("cuda_emulated");
    ASSERT_THAT(device_->hardware(), ::testing::HasSubstr("capability 8.6"));
    const bool doubles = GetParam() == DType::fp64, floats = GetParam() == DType::fp32;
    expect_agreement({1, 70, 70, 2, 1, 64});
    if (!doubles) expect_agreement({1, 70, 70, 2, 1, 128, 0, 0.3});
    if (!doubles && !floats) expect_agreement({1, 40, 40, 2, 1, 256});
    const auto expect_refusal = [&](i64 features, bool forward, int bytes) {
      CaseMaker cases(GetParam(), {1, 40, 40, 2, 1, features}, InMemory::dense);
      EXPECT_EQ(testing::error_of([&] {
                  testing::run_op(*device_, forward ? cases.forward() : cases.backward());
                }),
                fmt::format("operation \"attention{}\": a block of this kernel takes {} bytes of "
                            "shared memory, and this GPU has 101376; smaller heads, fewer "
                            "experts and dtypes of 16 bits take less, and GPUs of capability "
                            "8.0, 9.0 and 10.0 have more",
                            forward ? "" : "_backward",
                            bytes));
    };
    if (floats) expect_refusal(129, true, 108544);
    if (floats) expect_refusal(129, false, 137728);
    if (doubles) expect_refusal(65, false, 142336);
    device_.reset();
  }).join();
}

// A mistake in the kernels themselves, of which the kit's cases must tell.
TEST_P(CudaAttention, PlantedMistakesAreFound) {
  if (dtype_size(GetParam()) != 2) return;  // others have neither copies to wait for nor fragments
  for (const char* mistake : {"wait", "fragment"}) {
    CaseMaker cases(GetParam(), {1, 40, 70, 2, 1, 64, 30}, InMemory::dense);
    for (const bool with : {true, false}) {
      const testing::EnvironmentVariable planted("TESSERA_EMULATED_PLANTED", with ? mistake : "");
      const std::string wrong = testing::op_check(*device_, *reference_, cases.forward());
      EXPECT_EQ(wrong.empty(), !with) << mistake << ": " << wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes,
                         CudaAttention,
                         ::testing::Values(DType::fp32, DType::bf16, DType::fp16, DType::fp64),
                         [](const auto& of) { return std::string(dtype_name(of.param)); });

}  // namespace cuda_attention_test
}  // namespace tessera
