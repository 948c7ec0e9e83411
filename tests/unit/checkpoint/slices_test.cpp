#include "kernel/checkpoint/slices.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace slices_test {

// Numbers that do not change from run to run.
class Numbers {
 public:
  i64 below(i64 n) {
    return static_cast<i64>(Philox::words(3, {next_++})[0] % static_cast<u32>(n));
  }

 private:
  u32 next_ = 0;
};

i64 product(const std::vector<i64>& sizes) {
  i64 n = 1;
  for (const i64 size : sizes) n *= size;
  return n;
}

// Visits every element one by one, in the obvious way.
void copy_naively(const std::vector<u8>& from,
                  const std::vector<i64>& from_sizes,
                  const std::vector<i64>& from_begin,
                  std::vector<u8>& to,
                  const std::vector<i64>& to_sizes,
                  const std::vector<i64>& to_begin,
                  const std::vector<i64>& shape,
                  i64 bytes) {
  for (i64 i = 0; i < product(shape); ++i) {
    i64 rest = i, source = 0, target = 0, source_stride = 1, target_stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const i64 at = rest % shape[d];
      rest /= shape[d];
      source += (from_begin[d] + at) * source_stride;
      target += (to_begin[d] + at) * target_stride;
      source_stride *= from_sizes[d];
      target_stride *= to_sizes[d];
    }
    for (i64 b = 0; b < bytes; ++b) {
      to[static_cast<std::size_t>(target * bytes + b)] =
          from[static_cast<std::size_t>(source * bytes + b)];
    }
  }
}

TEST(CopyBlock, AsANaiveLoop) {
  Numbers numbers;
  for (int trial = 0; trial < 2000; ++trial) {
    const auto rank = static_cast<std::size_t>(numbers.below(5));
    const i64 bytes = i64{1} << numbers.below(4);
    std::vector<i64> shape, from_sizes, from_begin, to_sizes, to_begin;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(numbers.below(10) == 0 ? 0 : 1 + numbers.below(4));
      for (auto [sizes, begin] : {std::pair(&from_sizes, &from_begin), {&to_sizes, &to_begin}}) {
        begin->push_back(numbers.below(3));
        sizes->push_back(begin->back() + shape.back() + numbers.below(3));
      }
    }
    std::vector<u8> from(static_cast<std::size_t>(product(from_sizes) * bytes));
    for (u8& byte : from) byte = static_cast<u8>(numbers.below(256));
    std::vector<u8> to(static_cast<std::size_t>(product(to_sizes) * bytes), 0xEE);
    std::vector<u8> expected = to;
    copy_naively(from, from_sizes, from_begin, expected, to_sizes, to_begin, shape, bytes);
    copy_block(std::as_bytes(std::span(from)),
               from_sizes,
               from_begin,
               std::as_writable_bytes(std::span(to)),
               to_sizes,
               to_begin,
               shape,
               bytes);
    ASSERT_EQ(to, expected) << "trial " << trial;
  }
}

TEST(CopyBlock, NeverLeavesItsArrays) {
  std::vector<std::byte> small(8), large(64);
  EXPECT_THROW(copy_block(small, {4, 4}, {0, 0}, large, {4, 4}, {0, 0}, {4, 4}, 4), Error);
  EXPECT_THROW(copy_block(large, {4, 4}, {0, 0}, small, {4, 4}, {0, 0}, {4, 4}, 4), Error);
}

struct Cut {
  Shape shape;
  std::vector<Split> split;
};

const std::vector<Cut>& cuts() {
  static const std::vector<Cut> kAll = {
      {{6, 4}, {}},
      {{8, 5}, {{0, Axis::tensor}}},
      {{3, 8}, {{1, Axis::tensor}}},
      {{12, 2}, {{0, Axis::tensor, {4, 4, 4}}}},
      {{10, 3}, {{0, Axis::tensor, {}, 8}}},
      {{1, 3}, {{0, Axis::tensor, {}, 4}}},  // the second rank has only padding
      {{5}, {}},
      {{}, {}},
      {{2, 3, 4}, {}},
      {{3, 4, 2}, {{1, Axis::tensor, {2, 2}}}},
  };
  return kAll;
}

// runs() is what initialisation walks over: both must see the same elements in the same
// places, and the ranks together every element once.
TEST(LocalSlices, SameElementsAsInitialisation) {
  for (const Cut& cut : cuts()) {
    for (const i64 tensor : {i64{1}, i64{2}}) {
      Parameter p;
      p.logical = cut.shape;
      std::vector<int> seen(static_cast<std::size_t>(p.logical.elements()), 0);
      for (i64 rank = 0; rank < tensor; ++rank) {
        const Mesh mesh(RankGenerator({.world = tensor, .tensor = tensor}), rank);
        p.layout = ParameterLayout(cut.shape, cut.split, Placement::replicated(), mesh);
        p.local = p.layout.storage();
        std::vector<i64> expected(static_cast<std::size_t>(p.local.elements()), -1);
        for (const ElementRun& run : p.layout.runs()) {
          for (i64 i = 0; i < run.length; ++i) {
            expected[static_cast<std::size_t>(run.local + i)] = run.logical + i;
            if (p.layout.saved()) ++seen[static_cast<std::size_t>(run.logical + i)];
          }
        }
        std::vector<i64> logical(seen.size());
        for (std::size_t i = 0; i < logical.size(); ++i) logical[i] = static_cast<i64>(i);
        std::vector<i64> local(expected.size(), -1);
        for (const LocalSlice& slice : local_slices(p.layout)) {
          copy_block(std::as_bytes(std::span(logical)),
                     {p.logical.begin(), p.logical.end()},
                     slice.where.begin,
                     std::as_writable_bytes(std::span(local)),
                     {p.local.begin(), p.local.end()},
                     slice.local_begin,
                     slice.where.shape,
                     8);
        }
        EXPECT_EQ(local, expected) << p.logical.text() << " on " << tensor;
      }
      EXPECT_THAT(seen, ::testing::Each(1)) << p.logical.text() << " on " << tensor;
    }
  }
}

// Visits the elements of a slice: where each is in the storage and in the logical tensor.
template <class F>
void each_element(const LocalSlice& slice, const Shape& local, const Shape& logical, F&& visit) {
  for (i64 i = 0; i < slice.where.elements(); ++i) {
    i64 rest = i, here = 0, there = 0, local_stride = 1, logical_stride = 1;
    for (int d = local.rank() - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      const i64 entry = rest % slice.where.shape[at];
      rest /= slice.where.shape[at];
      here += (slice.local_begin[at] + entry) * local_stride;
      there += (slice.where.begin[at] + entry) * logical_stride;
      local_stride *= local[d];
      logical_stride *= logical[d];
    }
    visit(here, there);
  }
}

// Every range of every storage: its rectangles hold each of its elements once, none of the padding
// and none beyond.
TEST(LocalSlices, RectanglesTileExactlyTheRange) {
  for (const Cut& cut : cuts()) {
    for (const auto& [tensor, rank] : {std::pair<i64, i64>{1, 0}, {2, 0}, {2, 1}}) {
      const Mesh mesh(RankGenerator({.world = tensor, .tensor = tensor}), rank);
      const ParameterLayout layout(cut.shape, cut.split, Placement::replicated(), mesh);
      const i64 elements = layout.storage().elements();
      std::vector<i64> stands_for(static_cast<std::size_t>(elements), -1);  // -1: padding
      for (const ElementRun& run : layout.runs()) {
        for (i64 i = 0; i < run.length; ++i) {
          stands_for[static_cast<std::size_t>(run.local + i)] = run.logical + i;
        }
      }
      for (i64 begin = 0; begin <= elements; ++begin) {
        for (i64 end = begin; end <= elements; ++end) {
          std::vector<i64> expected(stands_for.size(), -1), found(stands_for.size(), -1);
          std::copy(stands_for.begin() + begin, stands_for.begin() + end, expected.begin() + begin);
          i64 visited = 0;
          for (const LocalSlice& slice : local_slices(layout, {begin, end - begin})) {
            each_element(slice, layout.storage(), cut.shape, [&](i64 here, i64 there) {
              found.at(static_cast<std::size_t>(here)) = there;
              ++visited;
            });
          }
          ASSERT_EQ(found, expected) << cut.shape.text() << " [" << begin << ", " << end << ")";
          ASSERT_EQ(visited, std::ranges::count_if(found, [](i64 at) { return at >= 0; }))
              << cut.shape.text() << " [" << begin << ", " << end << "): twice";
        }
      }
    }
  }
}

// A range makes few files' entries: at most one rectangle for each end along each dimension but the
// last, and one for what lies between.
TEST(LocalSlices, ARangeHasFewRectangles) {
  const Mesh mesh(RankGenerator(Layout{}), 0);
  const ParameterLayout layout({100, 10}, {}, Placement::replicated(), mesh);
  EXPECT_EQ(local_slices(layout, {0, 1000}).size(), 1U);
  EXPECT_EQ(local_slices(layout, {10, 500}).size(), 1U);
  EXPECT_EQ(local_slices(layout, {13, 3}).size(), 1U);
  EXPECT_EQ(local_slices(layout, {13, 500}).size(), 3U);
  EXPECT_TRUE(local_slices(layout, {13, 0}).empty());
}

}  // namespace slices_test
}  // namespace tessera
