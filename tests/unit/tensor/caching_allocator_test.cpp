#include "tessera/device/caching_allocator.hpp"

#include <cstring>
#include <map>
#include <random>

#include "sdk/src/host_device/system_memory.hpp"
#include "tensor_support.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tessera {
namespace caching_allocator_test {

using testing_support::TestDevice;

/// System memory up to a limit, counted.
class LimitedMemory : public MemorySource {
 public:
  explicit LimitedMemory(i64 limit = i64{1} << 40) : limit_(limit) {}
  ~LimitedMemory() override { EXPECT_TRUE(slabs_.empty()) << "slabs were not returned"; }
  void* reserve(i64 bytes) override {
    EXPECT_EQ(bytes % 4096, 0);
    if (used_ + bytes > limit_) return nullptr;
    void* address = system_.reserve(bytes);
    slabs_[address] = bytes;
    used_ += bytes;
    return address;
  }
  void release(void* address, i64 bytes) override {
    EXPECT_EQ(slabs_.at(address), bytes);
    slabs_.erase(address);
    used_ -= bytes;
    system_.release(address, bytes);
  }
  std::string limit() const override { return "of what the test has"; }
  std::size_t slabs() const { return slabs_.size(); }

 private:
  SystemMemory system_;
  i64 limit_, used_ = 0;
  std::map<void*, i64> slabs_;
};

class Allocator : public ::testing::Test {
 protected:
  TestDevice device_;
  Stream& a_ = device_.stream();
  Stream& b_ = device_.comm_stream(CommLane::critical);
};

TEST(AllocatorSizes, WasteLessThanAnEighth) {
  EXPECT_EQ(CachingAllocator::rounded(0), 512);
  EXPECT_EQ(CachingAllocator::rounded(513), 1024);
  for (i64 bytes = 4096; bytes < (i64{1} << 36); bytes += bytes / 7 + 13) {
    const i64 size = CachingAllocator::rounded(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_LT(size - bytes, bytes / 8 + 1);
    ASSERT_LE(size - bytes, i64{2} << 20);
    ASSERT_EQ(size % 512, 0);
    ASSERT_EQ(CachingAllocator::rounded(size), size);
  }
}

TEST_F(Allocator, KeepsStatistics) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  const Block weights = allocator.allocate(1000, Category::parameters, a_);
  const Block values = allocator.allocate(4096, Category::activations, a_);
  EXPECT_EQ(weights.bytes, 1024);
  allocator.release(values);
  const MemoryStats& stats = allocator.stats();
  EXPECT_EQ(stats.bytes[static_cast<int>(Category::parameters)], 1024);
  EXPECT_EQ(stats.bytes[static_cast<int>(Category::activations)], 0);
  EXPECT_EQ(stats.peak[static_cast<int>(Category::activations)], 4096);
  EXPECT_EQ(stats.total, 1024);
  EXPECT_EQ(stats.total_peak, 5120);
  EXPECT_EQ(stats.system_calls, 1);
  allocator.reset_peaks();
  EXPECT_EQ(stats.peak[static_cast<int>(Category::activations)], 0);
  EXPECT_EQ(stats.total_peak, 1024);
  allocator.release(weights);
}

// What a host holds of a slab: its pages up to the end of what was given out.
TEST_F(Allocator, CountsWhatWasEverGivenOut) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  constexpr i64 kMiB = i64{1} << 20;
  const Block first = allocator.allocate(4 * kMiB, Category::activations, a_);
  EXPECT_EQ(allocator.stats().touched, 4 * kMiB);
  const Block second = allocator.allocate(8 * kMiB, Category::activations, a_);
  EXPECT_EQ(allocator.stats().touched, 12 * kMiB);
  EXPECT_GT(allocator.stats().reserved, allocator.stats().touched);
  allocator.release(second);
  allocator.reset_peaks();
  const Block again = allocator.allocate(2 * kMiB, Category::activations, a_);
  EXPECT_EQ(allocator.stats().touched, 12 * kMiB) << "those pages stay";
  const Block large = allocator.allocate(100 * kMiB, Category::parameters, a_);
  EXPECT_EQ(allocator.stats().touched, 112 * kMiB);
  for (const Block& block : {first, again, large}) allocator.release(block);
}

TEST_F(Allocator, GivesReleasedMemoryToTheSameStreamOnly) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  const Block first = allocator.allocate(5000, Category::activations, a_);
  allocator.release(first);
  const Block other = allocator.allocate(5000, Category::activations, b_);
  EXPECT_NE(other.address, first.address);
  const Block again = allocator.allocate(5000, Category::activations, a_);
  EXPECT_EQ(again.address, first.address);
  allocator.release(other);
  allocator.release(again);
}

TEST_F(Allocator, JoinsNeighbours) {
  auto memory = std::make_shared<LimitedMemory>();
  CachingAllocator allocator(memory);
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(allocator.allocate(i64{2} << 20, Category::activations, a_));
  }
  EXPECT_EQ(memory->slabs(), 1);
  for (int i = 0; i < 8; i += 2) allocator.release(blocks[static_cast<std::size_t>(i)]);
  for (int i = 1; i < 8; i += 2) allocator.release(blocks[static_cast<std::size_t>(i)]);
  allocator.release(allocator.allocate(i64{16} << 20, Category::activations, a_));
  EXPECT_EQ(memory->slabs(), 1);
}

TEST_F(Allocator, RefusesASecondRelease) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  const Block block = allocator.allocate(100, Category::gradients, a_);
  allocator.release(block);
  EXPECT_ERROR(allocator.release(block),
               fmt::format("release of 512 bytes (gradients) at {} that are not in use: released "
                           "twice, or not of this pool",
                           block.address));
}

TEST_F(Allocator, ReturnsIdleSlabsBeforeItGivesUp) {
  auto memory = std::make_shared<LimitedMemory>(i64{100} << 20);
  int drained = 0;
  CachingAllocator::Options options;
  options.drain = [&] { ++drained; };
  CachingAllocator allocator(memory, options);
  const i64 large = i64{60} << 20;
  allocator.release(allocator.allocate(large, Category::activations, a_));
  const Block block = allocator.allocate(large, Category::activations, b_);
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(allocator.stats().reserved, large);
  EXPECT_ERROR(
      allocator.allocate(large, Category::gradients, b_),
      "out of memory: 62914560 bytes for gradients; 62914560 bytes are in use (60.0 MiB of "
      "activations) and 62914560 reserved, of what the test has. A smaller [batch] micro, "
      "recompute or "
      "more ranks need less");
  // A slab of the usual size does not fit any more; one of the exact size does.
  allocator.release(allocator.allocate(i64{30} << 20, Category::activations, a_));
  allocator.release(block);
}

/// Random requests on two streams. Every block carries a mark at both ends, so that an overlap
/// shows.
class Fuzz {
 public:
  Fuzz(CachingAllocator& pool, Stream& a, Stream& b, u32 seed)
      : pool_(pool), streams_{&a, &b}, random_(seed) {}

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      if (live_.empty() || (live_.size() < 200 && random_() % 2 == 0)) {
        allocate();
      } else {
        release();
      }
      check();
    }
    while (!live_.empty()) release();
    check();
  }

 private:
  struct Live {
    Block block;
    i64 asked;
    u32 mark;
  };

  void allocate() {
    const i64 asked = (i64{8} << random_() % 21) + random_() % 5000;
    const auto category = static_cast<Category>(random_() % kCategories);
    Live live{pool_.allocate(asked, category, *streams_[random_() % 2]),
              asked,
              static_cast<u32>(random_())};
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(live.block.address) % 64, 0);
    ASSERT_EQ(live.block.bytes, CachingAllocator::rounded(asked));
    auto* begin = static_cast<char*>(live.block.address);
    const auto next = ends_.upper_bound(begin);
    ASSERT_TRUE(next == ends_.end() || next->second >= begin + live.block.bytes);
    ends_[begin + live.block.bytes] = begin;
    stamp(live);
    bytes_[static_cast<std::size_t>(category)] += live.block.bytes;
    live_.push_back(live);
  }

  void release() {
    std::swap(live_[random_() % live_.size()], live_.back());
    const Live live = live_.back();
    live_.pop_back();
    u32 marks[2];
    std::memcpy(&marks[0], live.block.address, sizeof(u32));
    std::memcpy(&marks[1], tail(live), sizeof(u32));
    ASSERT_EQ(marks[0], live.mark);
    ASSERT_EQ(marks[1], live.mark);
    bytes_[static_cast<std::size_t>(live.block.category)] -= live.block.bytes;
    ends_.erase(static_cast<char*>(live.block.address) + live.block.bytes);
    pool_.release(live.block);
  }

  void check() {
    ASSERT_EQ(pool_.stats().bytes, bytes_);
    i64 total = 0;
    for (const i64 bytes : bytes_) total += bytes;
    ASSERT_EQ(pool_.stats().total, total);
  }

  static char* tail(const Live& live) {
    return static_cast<char*>(live.block.address) + live.asked - sizeof(u32);
  }
  static void stamp(const Live& live) {
    std::memcpy(live.block.address, &live.mark, sizeof(u32));
    std::memcpy(tail(live), &live.mark, sizeof(u32));
  }

  CachingAllocator& pool_;
  Stream* streams_[2];
  std::mt19937 random_;
  std::vector<Live> live_;
  std::map<char*, char*> ends_;  // of live blocks: end to begin
  std::array<i64, kCategories> bytes_{};
};

TEST_F(Allocator, SurvivesRandomRequests) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  for (u32 seed = 1; seed <= 20; ++seed) {
    Fuzz(allocator, a_, b_, seed).run(2000);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(Allocator, AsksTheSystemForNothingInASteadyState) {
  auto memory = std::make_shared<LimitedMemory>();
  CachingAllocator allocator(memory);
  // The first step finds new slabs, the second what the first has left of them.
  for (int step = 0; step < 2; ++step) Fuzz(allocator, a_, b_, 7).run(5000);
  const MemoryStats before = allocator.stats();
  for (int step = 0; step < 5; ++step) Fuzz(allocator, a_, b_, 7).run(5000);
  EXPECT_EQ(allocator.stats().system_calls, before.system_calls);
  EXPECT_EQ(allocator.stats().reserved, before.reserved);
  EXPECT_EQ(allocator.stats().total_peak, before.total_peak);
}

TEST_F(Allocator, RepeatsAddressesOfARepeatedStep) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  const auto step = [&] {
    std::vector<void*> addresses;
    std::vector<Block> blocks;
    for (const i64 bytes : {100, 70000, 3000000, 512, 1 << 20, 40 << 20}) {
      blocks.push_back(allocator.allocate(bytes, Category::activations, a_));
      addresses.push_back(blocks.back().address);
    }
    for (const Block& block : blocks) allocator.release(block);
    return addresses;
  };
  const std::vector<void*> first = step();
  EXPECT_EQ(step(), first);
}

#ifdef __SANITIZE_ADDRESS__
TEST_F(Allocator, TellsAsanWhatIsInUse) {
  CachingAllocator allocator(std::make_shared<LimitedMemory>());
  const Block block = allocator.allocate(600, Category::activations, a_);
  const auto* bytes = static_cast<char*>(block.address);
  EXPECT_FALSE(__asan_address_is_poisoned(bytes + 599));
  EXPECT_TRUE(__asan_address_is_poisoned(bytes + 600));
  allocator.release(block);
  EXPECT_TRUE(__asan_address_is_poisoned(bytes));
}
#endif

TEST(SystemMemory, IsZeroedAndAligned) {
  SystemMemory memory;
  for (const i64 bytes : {i64{4096}, i64{8} << 20}) {
    auto* address = static_cast<char*>(memory.reserve(bytes));
    ASSERT_NE(address, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 4096, 0);
    EXPECT_EQ(address[0] | address[bytes / 2] | address[bytes - 1], 0);
    memory.release(address, bytes);
  }
  EXPECT_EQ(memory.reserve(i64{1} << 60), nullptr);
}

}  // namespace caching_allocator_test
}  // namespace tessera
