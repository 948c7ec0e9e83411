#include "kernel/checkpoint/compare.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "kernel/checkpoint/export.hpp"
#include "kernel/checkpoint/host_floats.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "tests/unit/checkpoint/world_support.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace compare_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void save(const Layout& layout,
          const std::string& folder,
          i64 step,
          const std::function<void(CheckpointRank&)>& change = {}) {
  run_ranks(layout, folder, [&](CheckpointRank& rank) {
    rank.fill(1);
    if (change) change(rank);
    rank.checkpoints().save(info_at(step), rank.tensors);
  });
}

void set_first(CheckpointRank& rank, std::size_t tensor, float value) {
  const Tensor first = rank.tensors[tensor].tensor.slice(0, 0, 1);
  rank.arguments.device->write(first, &value);
}

TEST(Compare, FilesAndLayoutsDoNotMatter) {
  const TestFolder a, b;
  save(world_of(1, 1), a.path(), 1);
  save(world_of(2, 3), b.path(), 1);
  const CheckpointComparison found = compare_checkpoints(a.at("step-1"), b.at("step-1"));
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.equal, 6);
}

TEST(Compare, NamesWhatDiffers) {
  const TestFolder a, b;
  save(world_of(1, 1), a.path(), 1);
  save(world_of(1, 1), b.path(), 2, [](CheckpointRank& rank) {
    rank.tensors.pop_back();
    rank.add("new", {2}, {}, DType::fp32);
    rank.tensors[1].name = "renamed";
    rank.fill(1);
    set_first(rank, 0, 10000.25F);  // 110000 in the other
  });
  const CheckpointComparison found = compare_checkpoints(a.at("step-1"), b.at("step-2"));
  EXPECT_FALSE(found.same());
  EXPECT_THAT(found.counts, ElementsAre("step: 1 and 2", "updates: 0 and 1", "samples: 8 and 16"));
  EXPECT_EQ(found.equal, 3);
  ASSERT_EQ(found.differing.size(), 1U);
  EXPECT_EQ(found.differing[0].name, "vocabulary");
  EXPECT_EQ(found.differing[0].elements, 52);
  EXPECT_EQ(found.differing[0].differing, 1);
  EXPECT_EQ(found.differing[0].most, 110000 - 10000.25);
  EXPECT_THAT(found.missing, ElementsAre("qkv", "qkv/moment"));
  EXPECT_THAT(found.extra, ElementsAre("new", "renamed"));
}

// A run goes on from two checkpoints that are the same in the same way.
TEST(Compare, NamesNumbersThatARunGoesOnWith) {
  const TestFolder a, b;
  using Info = CheckpointInfo;
  const auto counts = [&](const Info& in_a, const Info& in_b, double tolerance) {
    for (const auto& [folder, info] : {std::pair(&a, &in_a), std::pair(&b, &in_b)}) {
      std::filesystem::remove_all(folder->at("step-1"));
      run_ranks(world_of(1, 1), folder->path(), [info](CheckpointRank& rank) {
        rank.fill(1);
        rank.checkpoints().save(*info, rank.tensors);
      });
    }
    const CheckpointComparison found =
        compare_checkpoints(a.at("step-1"), b.at("step-1"), tolerance);
    EXPECT_EQ(found.same(), found.counts.empty());
    return found.counts;
  };
  Info plain = info_at(1), other = info_at(1);
  other.loss_scale = {65536, 3, 2};
  other.loss_mean = 4.5;
  other.loss_count = 7;
  other.passed_over = {2, 5};
  EXPECT_THAT(counts(other, other, 0), IsEmpty());
  EXPECT_THAT(counts(plain, other, 0),
              ElementsAre("loss_scale: none and 65536 (clean_steps 3, hysteresis 2)",
                          "loss_mean: 0 and 4.5",
                          "loss_count: 0 and 7",
                          "passed_over: [] and [2, 5]"));
  // Each number of a loss scale counts. Only the mean is computed from the model's values.
  Info near = other;
  near.loss_scale = {65536, 4, 2};
  near.loss_mean = 4.5 * (1 + 1e-7);
  const char* scales =
      "loss_scale: 65536 (clean_steps 3, hysteresis 2) and 65536 (clean_steps 4, hysteresis 2)";
  EXPECT_THAT(counts(other, near, 1e-6), ElementsAre(scales));
  EXPECT_THAT(counts(other, near, 1e-8), ElementsAre(scales, HasSubstr("loss_mean: 4.5 and 4.50")));
}

// The largest magnitude of the tensor, in either, is what differences are held against.
TEST(Compare, WithinATolerance) {
  const TestFolder a, b;
  const auto pair = [&](float in_a, float in_b, double tolerance) {
    for (const auto& [folder, value] : {std::pair(&a, in_a), std::pair(&b, in_b)}) {
      std::filesystem::remove_all(folder->at("step-1"));
      save(world_of(1, 1), folder->path(), 1, [value](CheckpointRank& rank) {
        rank.tensors.clear();
        rank.add("small", {2, 3}, {}, DType::fp32);
        rank.add("w", {2, 3}, {}, DType::fp32);
        rank.fill(1);
        const std::vector<float> values = {value, 4, -8, 0, 0, 0};
        rank.arguments.device->write(rank.tensors[1].tensor, values.data());
      });
    }
    return compare_checkpoints(a.at("step-1"), b.at("step-1"), tolerance);
  };
  const CheckpointComparison strict = pair(1, 1.5F, 0);
  EXPECT_FALSE(strict.same());
  ASSERT_NE(strict.largest(), nullptr);
  EXPECT_EQ(strict.largest()->name, "w");
  EXPECT_EQ(strict.largest()->most, 0.5);
  EXPECT_EQ(strict.largest()->relative(), 0.5 / 8);
  const CheckpointComparison within = pair(1, 1.5F, 0.0625);
  EXPECT_TRUE(within.same());
  EXPECT_EQ(within.equal, 1);
  ASSERT_EQ(within.within.size(), 1U);
  EXPECT_EQ(within.largest(), &within.within[0]);
  EXPECT_FALSE(pair(1, 1.5F, 0.0624).same());
  EXPECT_FALSE(pair(1, 1 + 1e-6F, 0).same()) << "without a tolerance bits count";
  EXPECT_EQ(pair(1, 1, 1).largest(), nullptr);
}

TEST(Compare, OtherShapesAndDamage) {
  const TestFolder a, b;
  const auto add = [](const Shape& shape) {
    return [shape](CheckpointRank& rank) {
      rank.tensors.clear();
      rank.add("w", shape, {}, DType::fp32);
      rank.fill(1);
    };
  };
  save(world_of(1, 1), a.path(), 1, add({2, 3}));
  save(world_of(1, 1), b.path(), 1, add({3, 2}));
  const CheckpointComparison found = compare_checkpoints(a.at("step-1"), b.at("step-1"));
  ASSERT_EQ(found.differing.size(), 1U);
  EXPECT_EQ(found.differing[0].shapes, "fp32 [2, 3] and fp32 [3, 2]");
  std::filesystem::resize_file(b.at("step-1/rank-00000.safetensors"), 100);
  save(world_of(1, 1), a.path(), 1, add({3, 2}));
  EXPECT_THAT(text_of<Error>([&] { compare_checkpoints(a.at("step-1"), b.at("step-1")); }),
              HasSubstr("step-1 is damaged"));
}

TEST(Export, OneFileOfParameters) {
  const TestFolder folder;
  save(world_of(2, 2), folder.path(), 1);
  const Exported all = export_parameters(folder.at("step-1"), folder.at("all"), std::nullopt);
  EXPECT_EQ(all.tensors, 5);
  const SafetensorsFile file(folder.at("all"));
  EXPECT_EQ(all.bytes, file.size());
  EXPECT_EQ(file.entries().size(), 5U) << "without the optimizer's state";
  EXPECT_EQ(file.entry("vocabulary").shape, (std::vector<i64>{13, 4}));
  const std::vector<std::byte> fp32 = file.read(file.entry("vocabulary"));
  EXPECT_EQ(value_at(DType::fp32, fp32, 51), 110051);

  export_parameters(folder.at("step-1"), folder.at("half"), DType::bf16);
  const SafetensorsFile half(folder.at("half"));
  EXPECT_EQ(half.entry("vocabulary").dtype, "bf16");
  const std::vector<std::byte> bf16 = half.read(half.entry("vocabulary"));
  EXPECT_EQ(bf16, converted(fp32, DType::fp32, DType::bf16));
  EXPECT_THAT(text_of<ConfigError>(
                  [&] { export_parameters(folder.at("step-1"), folder.at("half"), std::nullopt); }),
              HasSubstr("half is there already"));
  std::filesystem::create_symlink("nowhere", folder.at("link"));
  EXPECT_THAT(text_of<ConfigError>(
                  [&] { export_parameters(folder.at("step-1"), folder.at("link"), std::nullopt); }),
              HasSubstr("link is there already"));
}

TEST(Export, LeavesNothingOfADamagedCheckpoint) {
  const TestFolder folder;
  save(world_of(1, 1), folder.path(), 1);
  std::filesystem::resize_file(folder.at("step-1/rank-00000.safetensors"), 100);
  EXPECT_THROW(export_parameters(folder.at("step-1"), folder.at("all"), std::nullopt), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.at("all")));
  EXPECT_FALSE(std::filesystem::exists(folder.at("all.tmp")));
}

TEST(HostFloats, RoundOnceToNearestEven) {
  const auto rounded = [](double value, DType to) {
    const auto bytes = converted(std::as_bytes(std::span(&value, 1)), DType::fp64, to);
    return value_at(to, bytes, 0);
  };
  EXPECT_EQ(rounded(1 + 0x1p-8, DType::bf16), 1);  // a tie goes to even
  EXPECT_EQ(rounded(1 + 3 * 0x1p-8, DType::bf16), 1 + 0x1p-6);
  EXPECT_EQ(rounded(1 + 0x1p-8 + 0x1p-40, DType::bf16), 1 + 0x1p-7) << "not by way of float";
  EXPECT_EQ(rounded(-(1 + 0x1p-8 + 0x1p-40), DType::bf16), -(1 + 0x1p-7));
  EXPECT_EQ(rounded(1e39, DType::bf16), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::nan(""), DType::bf16)));
  EXPECT_EQ(rounded(65504, DType::fp16), 65504);
  EXPECT_EQ(rounded(0.1, DType::fp32), static_cast<double>(0.1F));
}

}  // namespace compare_test
}  // namespace tessera
