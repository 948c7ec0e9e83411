#include "kernel/checkpoint/index.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/hash.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace index_test {

using ::testing::HasSubstr;
using ::testing::Not;

StoredSlice slice(std::vector<i64> begin, std::vector<i64> shape, const std::string& file = "f") {
  return {file, "key", {std::move(begin), std::move(shape)}, {0}};
}

CheckpointIndex index_of(std::vector<i64> shape, std::vector<StoredSlice> slices) {
  CheckpointIndex index;
  index.files = {{"f", 1 << 20}};
  index.tensors["w"] = {"fp32", std::move(shape), std::move(slices)};
  return index;
}

std::string tiling_error(const CheckpointIndex& index) {
  return text_of<Error>([&] { index.check_tiling(); });
}

CheckpointIndex sample() {
  CheckpointIndex index;
  index.info = {120, 118, 960, std::numeric_limits<u64>::max(), "text 0123: \"ü\"", "a = 1\nb = 2"};
  index.files = {{"rank-00000.safetensors", 123}, {"rank-00001.safetensors", i64{1} << 40}};
  index.tensors["w"] = {
      "fp32",
      {4, 6},
      {{"rank-00000.safetensors", "w[0:4, 0:3]", {{0, 0}, {4, 3}}, {0xfedcba9876543210}},
       {"rank-00001.safetensors", "w[0:4, 3:6]", {{0, 3}, {4, 3}}, {1, 2, 0xabc, 4}, 1}}};
  index.tensors["scalar"] = {"fp64", {}, {{"rank-00000.safetensors", "scalar", {}, {7}}}};
  return index;
}

TEST(CheckpointIndex, ATextThatIsNotUtf8DoesNotFailTheSave) {
  CheckpointIndex before = sample();
  before.info.config = "out = \"/data/m\xfcller\"";
  const CheckpointIndex after = CheckpointIndex::from_json(before.to_json(), "index.json");
  EXPECT_EQ(after.info.config, "out = \"/data/m\ufffdller\"");
}

TEST(CheckpointIndex, RoundTrip) {
  CheckpointIndex before = sample();
  before.info.loss_mean = 1.0 / 3;
  before.info.loss_count = 20;
  before.info.passed_over = {57, 58};
  const CheckpointIndex after = CheckpointIndex::from_json(before.to_json(), "index.json");
  EXPECT_EQ(after.to_json(), before.to_json());
  EXPECT_EQ(after.info.step, 120);
  EXPECT_EQ(after.info.updates, 118);
  EXPECT_EQ(after.info.samples, 960);
  EXPECT_EQ(after.info.seed, std::numeric_limits<u64>::max());
  EXPECT_EQ(after.info.loss_mean, 1.0 / 3);
  EXPECT_EQ(after.info.loss_count, 20);
  EXPECT_EQ(after.info.passed_over, (std::vector<i64>{57, 58}));
  EXPECT_EQ(after.info.data, "text 0123: \"ü\"");
  EXPECT_EQ(after.info.config, "a = 1\nb = 2");
  EXPECT_EQ(after.files[1].bytes, i64{1} << 40);
  const StoredSlice& second = after.tensors.at("w").slices[1];
  EXPECT_EQ(second.where.begin, (std::vector<i64>{0, 3}));
  EXPECT_EQ(after.tensors.at("w").slices[0].checksums, std::vector<u64>{0xfedcba9876543210});
  EXPECT_EQ(second.checksums, (std::vector<u64>{1, 2, 0xabc, 4}));
  EXPECT_EQ(second.block_rows, 1);
  EXPECT_EQ(after.tensors.at("scalar").shape, std::vector<i64>{});
  EXPECT_NO_THROW(after.check_tiling());
  EXPECT_EQ(after.total_bytes(), 123 + (i64{1} << 40));
}

TEST(CheckpointIndex, LossScaleIsThereWhereItMoves) {
  CheckpointIndex index = sample();
  EXPECT_THAT(index.to_json(), Not(HasSubstr("loss_scale")));
  EXPECT_FALSE(CheckpointIndex::from_json(index.to_json(), "index.json").info.loss_scale);
  index.info.loss_scale = {0x1p+31, 999, 1};
  const auto read = CheckpointIndex::from_json(index.to_json(), "index.json").info.loss_scale;
  ASSERT_TRUE(read);
  EXPECT_EQ(read->scale, 0x1p+31);
  EXPECT_EQ(read->clean_steps, 999);
  EXPECT_EQ(read->hysteresis, 1);
}

TEST(CheckpointIndex, KeepsWhatParametersMeanWhereItIsKnown) {
  CheckpointIndex index = sample();
  const CheckpointInfo without = CheckpointIndex::from_json(index.to_json(), "index.json").info;
  EXPECT_EQ(without.tokenizer, "") << "of a model from elsewhere";
  EXPECT_TRUE(without.structure.empty());
  index.info.tokenizer = "gpt2: 258 tokens, 0123456789abcdef";
  index.info.structure = {{"model.heads", "4"}, {"model.type", "\"gpt\""}};
  const CheckpointInfo read = CheckpointIndex::from_json(index.to_json(), "index.json").info;
  EXPECT_EQ(read.tokenizer, index.info.tokenizer);
  EXPECT_EQ(read.structure, index.info.structure);
}

// Any changed, missing or added byte is noticed and named; none crashes the reader.
TEST(CheckpointIndex, AnyDamageIsNoticed) {
  const std::string good = sample().to_json();
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 6}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      try {
        const CheckpointIndex read = CheckpointIndex::from_json(bad, "x/index.json");
        EXPECT_EQ(read.to_json(), good) << "changed at " << at;  // white space only
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("x/index.json is damaged: "));
      }
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(CheckpointIndex::from_json(good.substr(0, size), "i"), Error) << size;
  }
}

// It is sound, so nobody is told to throw it away.
TEST(CheckpointIndex, AnotherFormatIsNotDamage) {
  auto json = nlohmann::json::parse(sample().to_json());
  json["format"] = "tessera-checkpoint-2";
  const auto read = [&] { CheckpointIndex::from_json(json.dump(1), "i"); };
  EXPECT_EQ(text_of<Error>(read),
            "i is damaged: it has format \"tessera-checkpoint-2\", this version reads "
            "\"tessera-checkpoint-3\"");
  json.erase("checksum");
  json["checksum"] = fmt::format("{:016x}", hash64(json.dump(1)));
  EXPECT_EQ(text_of<Error>(read),
            "i has format \"tessera-checkpoint-2\", this version reads \"tessera-checkpoint-3\"");
}

TEST(CheckpointIndex, TextsOfDamage) {
  EXPECT_EQ(text_of<Error>([] { CheckpointIndex::from_json("{}", "a/index.json"); }),
            "a/index.json is damaged: key 'format' not found");
  EXPECT_EQ(text_of<Error>([] { CheckpointIndex::from_json("[]", "a/index.json"); }),
            "a/index.json is damaged: it is a JSON array instead of an object");
  EXPECT_THAT(text_of<Error>([] { CheckpointIndex::from_json(R"({"format":"later"})", "i"); }),
              HasSubstr("it has format \"later\", this version reads \"tessera-checkpoint-3\""));
  std::string edited = sample().to_json();
  edited.replace(edited.find("960"), 3, "961");
  EXPECT_EQ(text_of<Error>([&] { CheckpointIndex::from_json(edited, "i"); }),
            "i is damaged: its own checksum is wrong");
}

TEST(CheckpointIndex, ATensorThatIsDamagedIsNamed) {
  CheckpointIndex index = index_of({2}, {slice({0}, {2})});
  index.tensors["w"].dtype = "fp32\nfp64";
  EXPECT_EQ(text_of<Error>([&] { CheckpointIndex::from_json(index.to_json(), "i"); }),
            R"(i is damaged: tensor "w": dtype "fp32\nfp64" is not one that checkpoints hold)");
  index.tensors["w"].dtype = "f32";
  EXPECT_EQ(text_of<Error>([&] { CheckpointIndex::from_json(index.to_json(), "i"); }),
            R"(i is damaged: tensor "w": dtype "f32" is not one that checkpoints hold)");
}

TEST(CheckpointIndex, FilesOutsideOfTheFolderAreRefused) {
  for (const std::string name : {"../f", "/etc/passwd", "a/b", "", ".", ".."}) {
    CheckpointIndex index = index_of({2}, {slice({0}, {2}, name)});
    EXPECT_THROW(CheckpointIndex::from_json(index.to_json(), "i"), Error) << name;
    index = index_of({2}, {slice({0}, {2})});
    index.files = {{name, 1}};
    EXPECT_THROW(CheckpointIndex::from_json(index.to_json(), "i"), Error) << name;
  }
}

TEST(CheckpointIndex, NumbersThatCannotBeComputedWithAreDamage) {
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  const auto error = [](const CheckpointIndex& index) {
    return text_of<Error>([&] { CheckpointIndex::from_json(index.to_json(), "i"); });
  };
  EXPECT_THAT(error(index_of({6, i64{1} << 62}, {})), HasSubstr("more than 2^60 elements"));
  EXPECT_THAT(error(index_of({0, i64{1} << 40, i64{1} << 40}, {})), HasSubstr("2^60"));
  EXPECT_THAT(error(index_of({4}, {slice({kMost}, {4})})), HasSubstr("begins at 92233720"));
  EXPECT_THAT(error(index_of({4}, {slice({-1}, {4})})), HasSubstr("begins at -1"));
  EXPECT_THAT(error(index_of({4}, {slice({0}, {-4})})), HasSubstr("size -4"));
  CheckpointIndex files = index_of({4}, {slice({0}, {4})});
  files.files = {{"f", kMost}, {"g", 1}};
  EXPECT_THAT(error(files), HasSubstr("a file has 1 bytes"));
  files.files = {{"f", -1}};
  EXPECT_THAT(error(files), HasSubstr("a file has -1 bytes"));
}

TEST(CheckpointIndex, SlicesOfAnotherRankAreRefused) {
  const CheckpointIndex index = index_of({2, 2}, {slice({0}, {2})});
  EXPECT_THAT(text_of<Error>([&] { CheckpointIndex::from_json(index.to_json(), "i"); }),
              HasSubstr("another number of dimensions"));
}

TEST(CheckpointIndex, ChecksumsThatDoNotFitTheBlocksAreRefused) {
  struct Grid {
    i64 rows = 0;
    int dim = 0;
    i64 columns = 0;
  };
  const auto read = [](std::vector<i64> shape, std::size_t checksums, Grid grid) {
    StoredSlice stored = slice(std::vector<i64>(shape.size(), 0), shape);
    stored.checksums.assign(checksums, 7);
    stored.block_rows = grid.rows;
    stored.column_dim = grid.dim;
    stored.block_columns = grid.columns;
    const CheckpointIndex index =
        CheckpointIndex::from_json(index_of(std::move(shape), {stored}).to_json(), "i");
    EXPECT_EQ(index.tensors.at("w").slices[0].blocks().size(), checksums);
  };
  const auto error = [&](const auto&... what) { return text_of<Error>([&] { read(what...); }); };
  using Shape = std::vector<i64>;
  EXPECT_NO_THROW(read({5, 2}, 3, {2}));
  EXPECT_NO_THROW(read({5, 7}, 9, {2, 1, 3}));
  EXPECT_NO_THROW(read({5, 4, 7}, 9, {2, 2, 3}));
  for (const auto& text : {error(Shape{5, 2}, 2U, Grid{2}),
                           error(Shape{5, 2}, 4U, Grid{2}),
                           error(Shape{5, 2}, 3U, Grid{-2}),
                           error(Shape{}, 1U, Grid{1}),
                           error(Shape{0, 2}, 1U, Grid{1}),
                           error(Shape{5, 7}, 3U, Grid{2, 1, 3}),
                           error(Shape{5, 7}, 9U, Grid{2, 1, -3}),
                           error(Shape{5, 7}, 9U, Grid{2, 0, 3}),
                           error(Shape{5, 7}, 9U, Grid{2, 2, 3}),
                           error(Shape{5, 7}, 9U, Grid{2, -1, 3}),
                           error(Shape{i64{1} << 59, 2}, 1U, Grid{1, 1, 1})}) {
    EXPECT_THAT(text, HasSubstr("another number of checksums than blocks"));
  }
}

StoredSlice divided(const std::vector<i64>& shape, int column_dim) {
  StoredSlice stored = slice(std::vector<i64>(shape.size(), 7), shape);
  stored.divide(4, column_dim);
  return stored;
}

TEST(Blocks, OfASmallSliceAreOne) {
  for (const std::vector<i64>& shape :
       std::vector<std::vector<i64>>{{8, 4}, {128, 128}, {}, {0}, {3, 0}}) {
    const StoredSlice stored = divided(shape, shape.size() > 1 ? 1 : 0);
    EXPECT_EQ(stored.block_rows, 0);
    EXPECT_EQ(stored.block_columns, 0);
    EXPECT_EQ(stored.blocks().size(), 1U);
  }
}

TEST(Blocks, CoverASliceInFewParts) {
  for (const std::vector<i64>& shape : std::vector<std::vector<i64>>{
           {50257, 768}, {3072, 768}, {1 << 20}, {100'000, 1}, {3, 1 << 20}, {17, 5000, 3}}) {
    const StoredSlice stored = divided(shape, 0);
    const std::vector<Rectangle> blocks = stored.blocks();
    EXPECT_GT(blocks.size(), 1U);
    EXPECT_LE(blocks.size(), 128U);
    i64 row = 7, elements = 0;
    for (const Rectangle& block : blocks) {
      EXPECT_EQ(block.begin[0], row);
      row += block.shape[0];
      elements += block.elements();
      if (row < 7 + shape[0]) {
        EXPECT_GE(block.elements() * 4, 64 * 1024);
      }
    }
    EXPECT_EQ(elements, stored.where.elements());
  }
}

// Where a layout may cut columns, blocks of columns end where as many ranks, and fewer, would.
TEST(Blocks, OfColumnsCoverASliceOnce) {
  struct Case {
    std::vector<i64> shape;
    int dim;
    std::size_t columns;  // blocks of a band
  };
  for (const auto& [shape, dim, columns] :
       std::vector<Case>{{{768, 3072}, 1, 24},  // of 128 floats each
                         {{512, 1024}, 1, 8},
                         {{1000, 1001}, 1, 8},
                         {{384, 384}, 1, 3},
                         {{4096, 16384}, 1, 32},
                         {{8, 1536, 384}, 1, 32},
                         {{8, 384, 1536}, 2, 12},
                         {{2, 1 << 20}, 1, 32},
                         {{4096, 100}, 1, 1}}) {
    StoredSlice stored = divided(shape, dim);
    const std::vector<Rectangle> bands = stored.bands();
    EXPECT_LE(bands.size(), columns > 1 ? 32U : 128U);
    i64 elements = 0;
    for (const Rectangle& band : bands) {
      const std::vector<Rectangle> blocks = stored.blocks(band);
      EXPECT_EQ(blocks.size(), columns);
      const auto d = static_cast<std::size_t>(dim);
      i64 column = 7;
      for (const Rectangle& block : blocks) {
        EXPECT_EQ(block.begin[0], band.begin[0]);
        EXPECT_EQ(block.begin[d], column);
        column += block.shape[d];
        elements += block.elements();
      }
    }
    EXPECT_EQ(elements, stored.where.elements());
    stored.checksums.assign(stored.blocks().size(), 1);
    const auto read = CheckpointIndex::from_json(index_of(shape, {stored}).to_json(), "i");
    const StoredSlice& again = read.tensors.at("w").slices[0];
    EXPECT_EQ(again.block_rows, stored.block_rows);
    EXPECT_EQ(again.column_dim, stored.column_dim);
    EXPECT_EQ(again.block_columns, stored.block_columns);
  }
}

// Each of so many ranks reads its own of the columns that one rank saved.
TEST(Blocks, OfColumnsAreReadByTheRanksThatHaveThem) {
  const auto most_read = [](const StoredSlice& stored, i64 ranks) {
    const i64 share = stored.where.shape[1] / ranks;
    i64 most = 0;
    for (i64 rank = 0; rank < ranks; ++rank) {
      Rectangle own = stored.where;
      own.begin[1] += rank * share;
      own.shape[1] = share;
      i64 read = 0;
      for (const Rectangle& block : stored.blocks()) {
        if (block.overlaps(own)) read += block.elements();
      }
      most = std::max(most, read);
    }
    return static_cast<double>(most) / static_cast<double>(stored.where.elements() / ranks);
  };
  const StoredSlice large = divided({4096, 16384}, 1), small = divided({768, 3072}, 1);
  for (const i64 ranks : {1, 2, 4, 8, 16, 32}) EXPECT_EQ(most_read(large, ranks), 1) << ranks;
  for (const i64 ranks : {1, 2, 3, 4, 6, 8, 12, 24}) EXPECT_EQ(most_read(small, ranks), 1) << ranks;
  EXPECT_EQ(most_read(small, 16), 4.0 / 3) << "two blocks for one and a half";
}

TEST(Tiling, Covers) {
  EXPECT_NO_THROW(index_of({4, 4}, {slice({0, 0}, {4, 2}), slice({0, 2}, {4, 2})}).check_tiling());
  EXPECT_NO_THROW(index_of({}, {slice({}, {})}).check_tiling());
  EXPECT_NO_THROW(index_of({0, 3}, {}).check_tiling());
  EXPECT_NO_THROW(index_of({0, 3}, {slice({0, 0}, {0, 3})}).check_tiling());
}

TEST(Tiling, ErrorsNameTheTensor) {
  EXPECT_EQ(tiling_error(index_of({4, 4}, {slice({0, 0}, {4, 2})})),
            "slices of \"w\" hold 8 of its 16 elements");
  EXPECT_EQ(tiling_error(index_of({}, {})), "slices of \"w\" hold 0 of its 1 elements");
  EXPECT_EQ(tiling_error(index_of({4}, {slice({0}, {3}), slice({2}, {2})})),
            "slices [2:4] and [0:3] of \"w\" overlap");
  EXPECT_EQ(tiling_error(index_of({4, 2}, {slice({2, 0}, {3, 2})})),
            "slice [2:5, 0:2] of \"w\" lies outside of [0:4, 0:2]");
  EXPECT_EQ(tiling_error(index_of({4}, {slice({-1}, {4})})),
            "slice [-1:3] of \"w\" lies outside of [0:4]");
  EXPECT_EQ(tiling_error(index_of({4}, {slice({0}, {4}, "g")})),
            "\"w\" lies in \"g\", which is not listed");
  // Two that overlap and a hole, of the right sum.
  EXPECT_THAT(tiling_error(index_of({4}, {slice({0}, {2}), slice({0}, {2})})),
              HasSubstr("overlap"));
}

TEST(Tiling, OfManySlicesTakesNoTimeOfTheirSquare) {
  constexpr i64 kSide = 400;
  CheckpointIndex index = index_of({kSide, kSide}, {});
  auto& slices = index.tensors.at("w").slices;
  for (i64 row = 0; row < kSide; ++row) {
    for (i64 column = 0; column < kSide; ++column) slices.push_back(slice({row, column}, {1, 1}));
  }
  EXPECT_NO_THROW(index.check_tiling());
  slices.back().where.begin = {0, 0};
  EXPECT_EQ(tiling_error(index), "slices of \"w\" overlap, or leave elements out");
}

// No cut from end to end divides these five.
TEST(Tiling, OfAPinwheel) {
  EXPECT_NO_THROW(index_of({3, 3},
                           {slice({0, 0}, {1, 2}),
                            slice({0, 2}, {2, 1}),
                            slice({2, 1}, {1, 2}),
                            slice({1, 0}, {2, 1}),
                            slice({1, 1}, {1, 1})})
                      .check_tiling());
}

TEST(Tiling, FilesHoldWhatTheyAreSaidToHold) {
  EXPECT_EQ(tiling_error(index_of({1 << 20, 2}, {slice({0, 0}, {1 << 20, 2})})),
            "\"w\" has 2097152 elements of fp32 in \"f\", which is not that large");
}

TEST(CheckpointIndex, ManyObjectsTakeNoTimeOfTheirSquare) {
  std::string text = "{\"format\":[";
  for (int i = 0; i < 400'000; ++i) text += "{},";
  EXPECT_THAT(text_of<Error>([&] { CheckpointIndex::from_json(text + "1]}", "i"); }),
              HasSubstr("i is damaged: it has format [\\n {},"));
}

TEST(CheckpointIndex, NestedWithoutEndIsRefused) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  for (const std::string& text : {deep, "{\"format\":" + std::string(100'000, '[')}) {
    EXPECT_EQ(text_of<Error>([&] { CheckpointIndex::from_json(text, "i"); }),
              "i is damaged: more than 32 objects and arrays lie in each other");
    EXPECT_EQ(text_of<Error>([&] { parse_safetensors_header(text, "s"); }),
              "s is damaged: more than 32 objects and arrays lie in each other");
  }
}

TEST(CheckpointIndex, MergeRefusesRanksThatDisagree) {
  CheckpointIndex all = index_of({4}, {slice({0}, {2})});
  all.merge(index_of({4}, {slice({2}, {2})}));
  EXPECT_EQ(all.tensors.at("w").slices.size(), 2U);
  EXPECT_EQ(text_of<Error>([&] { all.merge(index_of({5}, {})); }),
            "ranks disagree about the shape or dtype of \"w\"");
}

TEST(CheckpointIndex, AMissingFileIsNamed) {
  EXPECT_EQ(text_of<Error>([] { read_index("nowhere/step-1"); }),
            "cannot open nowhere/step-1/index.json: No such file or directory");
}

}  // namespace index_test
}  // namespace tessera
