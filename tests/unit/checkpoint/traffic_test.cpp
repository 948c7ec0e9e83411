// What reading and writing move: bytes that a rank needs, files that are written at once.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/checkpoint/world_support.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace traffic_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Bytes that this thread has read from files so far, as the system counts them.
i64 bytes_read() {
  std::ifstream io("/proc/thread-self/io");
  std::string key;
  i64 value = 0;
  while (io >> key >> value) {
    if (key == "rchar:") return value;
  }
  ADD_FAILURE() << "the system does not count reads";
  return 0;
}

// Rows, columns or rows in sections are cut: several blocks each, one or several to a rank.
void add_large(CheckpointRank& rank) {
  rank.tensors.clear();
  rank.add("rows", {1024, 512}, {{0, Axis::tensor}}, DType::fp32);
  rank.add("qkv", {1536, 512}, {{0, Axis::tensor, {512, 512, 512}}}, DType::fp32);
  rank.add("columns", {512, 1024}, {{1, Axis::tensor}}, DType::fp32);
  rank.add("norm", {512}, {}, DType::fp32);
}
constexpr i64 kRows = 1024 * 512 * 4, kQkv = 1536 * 512 * 4, kColumns = 512 * 1024 * 4;

// Whether replicas hold everything, or a share each, as ZeRO-1 does with optimizer state.
enum class Replicas { whole, share };

void save(const Layout& layout, const std::string& folder, Replicas hold = Replicas::whole) {
  run_ranks(layout, folder, [&](CheckpointRank& rank) {
    add_large(rank);
    if (hold == Replicas::share) rank.keep_share();
    rank.fill(1);
    rank.checkpoints().save(info_at(1), rank.tensors);
  });
}

std::vector<i64> read_by_rank(const Layout& layout,
                              const std::string& folder,
                              Replicas hold = Replicas::whole) {
  std::vector<i64> bytes(static_cast<std::size_t>(layout.world));
  run_ranks(layout, folder, [&](CheckpointRank& rank) {
    add_large(rank);
    if (hold == Replicas::share) rank.keep_share();
    rank.spoil();
    Checkpoints checkpoints = rank.checkpoints();
    const i64 before = bytes_read();
    checkpoints.load("auto", rank.tensors);
    bytes[static_cast<std::size_t>(rank.mesh().rank())] = bytes_read() - before;
    EXPECT_EQ(rank.wrong(1), "");
  });
  return bytes;
}

i64 others(const std::string& folder) {  // the index, headers and small tensors
  return static_cast<i64>(fs::file_size(folder + "/step-1/index.json")) + 16 * 1024;
}

TEST(BytesRead, EachRankReadsItsRowsOrColumnsOnly) {
  const TestFolder folder;
  save(world_of(1, 1), folder.path());
  for (const i64 ranks : {2, 4}) {
    for (const i64 bytes : read_by_rank(world_of(ranks, 1), folder.path())) {
      EXPECT_GE(bytes, (kRows + kQkv + kColumns) / ranks);
      EXPECT_LE(bytes, (kRows + kQkv + kColumns) / ranks + others(folder.path()));
    }
  }
}

TEST(BytesRead, UnderTheSameLayoutEachRankReadsItsOwn) {
  const TestFolder folder;
  save(world_of(4, 1), folder.path());
  for (const i64 bytes : read_by_rank(world_of(4, 1), folder.path())) {
    EXPECT_LE(bytes, (kRows + kQkv + kColumns) / 4 + others(folder.path()));
  }
  // And one rank that needs all reads all, once.
  EXPECT_LE(read_by_rank(world_of(1, 1), folder.path())[0],
            kRows + kQkv + kColumns + others(folder.path()));
}

TEST(BytesRead, OfWhatTwoRanksSavedAQuarterEach) {
  const TestFolder folder;
  save(world_of(2, 1), folder.path());
  for (const i64 bytes : read_by_rank(world_of(4, 1), folder.path())) {
    EXPECT_LE(bytes, (kRows + kQkv + kColumns) / 4 + others(folder.path()));
  }
}

// Shares of three end within rows, and the others lie differently. A block with a checksum, where a
// share begins or ends, is read whole.
TEST(BytesRead, OfSharesOfReplicasTheirsOnly) {
  const TestFolder folder;
  save(world_of(1, 3), folder.path(), Replicas::share);
  constexpr i64 kAll = kRows + kQkv + kColumns, kUneven = 64;  // bytes: shares differ by elements
  constexpr i64 kBlocks = 2 * 3 * (64 << 10);                  // at both ends, of three tensors
  for (const Layout& layout : {world_of(1, 3), world_of(1, 2), world_of(2, 2), world_of(1, 5)}) {
    for (const i64 bytes : read_by_rank(layout, folder.path(), Replicas::share)) {
      EXPECT_GE(bytes, kAll / layout.world - kUneven);
      EXPECT_LE(bytes, kAll / layout.world + kBlocks + others(folder.path()));
    }
  }
}

TEST(BytesWritten, ReplicasShareTheWork) {
  const TestFolder folder;
  save(world_of(1, 3), folder.path());
  i64 least = kRows + kQkv + kColumns, most = 0;
  for (const StoredFile& file : read_index(folder.at("step-1")).files) {
    least = std::min(least, file.bytes);
    most = std::max(most, file.bytes);
  }
  EXPECT_EQ(read_index(folder.at("step-1")).files.size(), 3U);
  EXPECT_GE(least, kRows);
  EXPECT_LE(most, kQkv + 8 * 1024);
  EXPECT_GT(read_by_rank(world_of(1, 1), folder.path())[0], 0);
}

// Large parts go into several files, each by a thread of its own; what is in them is the same.
TEST(BytesWritten, LargePartsGoIntoSeveralFiles) {
  const TestFolder folder;
  const auto large = [](CheckpointRank& rank) {
    rank.tensors.clear();
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      rank.add(name, {1 << 13, 1 << 10}, {}, DType::fp32);  // 32 MiB each
    }
    rank.add("small", {3}, {}, DType::fp32);
  };
  run_ranks(world_of(1, 1), folder.path(), [&](CheckpointRank& rank) {
    large(rank);
    rank.arguments.threads = 4;
    rank.fill(1);
    rank.checkpoints().save(info_at(1), rank.tensors);
    rank.spoil();
    ASSERT_TRUE(rank.checkpoints().load("auto", rank.tensors));
    EXPECT_EQ(rank.wrong(1), "");
  });
  const CheckpointIndex index = read_index(folder.at("step-1"));
  ASSERT_EQ(index.files.size(), 2U) << "160 MiB, at least 64 each";
  EXPECT_EQ(index.files[0].name, "rank-00000.0.safetensors");
  EXPECT_LT(std::max(index.files[0].bytes, index.files[1].bytes), i64{97} << 20);
}

}  // namespace traffic_test
}  // namespace tessera
