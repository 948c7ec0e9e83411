#include "sdk/src/shared/arena.hpp"

#include <random>
#include <vector>

#include "tensor_support.hpp"

namespace tessera {
namespace arena_test {

using testing_support::TestDevice;

class Arenas : public ::testing::Test {
 protected:
  /// A random sequence of requests and releases on two streams that ends with nothing in use.
  std::vector<void*> sequence(Pool& pool, u32 seed) {
    std::mt19937 random(seed);
    std::vector<void*> addresses;
    std::vector<Block> live;
    const auto release = [&](std::size_t at) {
      std::swap(live[at], live.back());
      pool.release(live.back());
      live.pop_back();
    };
    for (int i = 0; i < 500; ++i) {
      if (live.empty() || random() % 5 < 3) {
        Stream& stream =
            random() % 3 == 0 ? device_.comm_stream(CommLane::critical) : device_.stream();
        live.push_back(pool.allocate(random() % 10000, Category::activations, stream));
        addresses.push_back(live.back().address);
      } else {
        release(random() % live.size());
      }
    }
    while (!live.empty()) release(random() % live.size());
    return addresses;
  }

  TestDevice device_;
};

TEST_F(Arenas, NeedWhatTheirLayoutSays) {
  for (u32 seed = 1; seed <= 20; ++seed) {
    Arena roomy(device_.pool(), i64{1} << 23, device_.stream());
    sequence(roomy, seed);
    const i64 bytes = roomy.layout().used_to();
    Arena arena(device_.pool(), bytes, device_.stream());
    const std::vector<void*> first = sequence(arena, seed);
    EXPECT_EQ(sequence(arena, seed), first);
    Arena tight(device_.pool(), bytes - 64, device_.stream());
    EXPECT_THROW(sequence(tight, seed), Error);
  }
}

TEST_F(Arenas, CountAsGraphMemory) {
  {
    Arena arena(device_.pool(), 1 << 20, device_.stream());
    const Block block = arena.allocate(1000, Category::activations, device_.stream());
    const MemoryStats stats = device_.memory();
    EXPECT_EQ(stats.bytes[static_cast<int>(Category::graph)], 1 << 20);
    EXPECT_EQ(stats.total, 1 << 20);
    arena.release(block);
  }
  EXPECT_EQ(device_.memory().total, 0);
}

TEST_F(Arenas, GiveReleasedMemoryToTheSameStreamOnly) {
  Arena arena(device_.pool(), 4096, device_.stream());
  Stream& a = device_.stream();
  Stream& b = device_.comm_stream(CommLane::critical);
  const Block kept = arena.allocate(64, Category::activations, a);
  const Block first = arena.allocate(64, Category::activations, a);
  const Block after = arena.allocate(64, Category::activations, a);
  arena.release(first);
  const Block other = arena.allocate(64, Category::activations, b);
  EXPECT_NE(other.address, first.address);
  EXPECT_EQ(arena.allocate(64, Category::activations, a).address, first.address);
  arena.release(first);
  for (const Block& block : {kept, after, other}) arena.release(block);
}

TEST_F(Arenas, NameTheSizesWhenFull) {
  Arena arena(device_.pool(), 4096, device_.stream());
  const Block block = arena.allocate(3000, Category::activations, device_.stream());
  EXPECT_ERROR(arena.allocate(2000, Category::workspace, device_.stream()),
               "an arena of 4096 bytes has no room for 2000 bytes of workspace: it would need 5056 "
               "bytes. A graph is captured with the requests that its warm-up made");
  arena.release(arena.allocate(1000, Category::workspace, device_.stream()));
  arena.release(block);
}

TEST_F(Arenas, RefuseASecondRelease) {
  Arena arena(device_.pool(), 4096, device_.stream());
  const Block block = arena.allocate(10, Category::activations, device_.stream());
  arena.release(block);
  EXPECT_ERROR(arena.release(block),
               "release of memory at offset 0 of an arena that is not in use: released twice?");
}

}  // namespace arena_test
}  // namespace tessera
