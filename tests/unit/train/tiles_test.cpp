// Several tensors of another format that make up one parameter.
#include "kernel/train/run/tiles.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "common/error_of.hpp"
#include "common/test_folder.hpp"
#include "kernel/train/run/imported_tensors.hpp"

namespace tessera {
namespace tiles_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestFolder;

using Sizes = std::vector<i64>;
constexpr const char* kQkv = "layers.0.attention.qkv.weight";

// Queries, keys and values: rows of one parameter.
std::vector<ConvertedTensor> qkv(i64 keys = 128, i64 values = 192) {
  const std::string there = "model.layers.0.self_attn.";
  return {{kQkv, there + "q_proj.weight"},
          {kQkv, there + "k_proj.weight", false, {.row = keys}},
          {kQkv, there + "v_proj.weight", false, {.row = values}}};
}

// Two experts: a gate and an up matrix each, which are columns here, transposed.
std::vector<ConvertedTensor> experts() {
  std::vector<ConvertedTensor> all;
  for (const i64 e : {1, 0}) {
    all.push_back({"experts.up", fmt::format("{}.w1", e), true, {.entry = e}});
    all.push_back({"experts.up", fmt::format("{}.w3", e), true, {.column = 2, .entry = e}});
  }
  return all;
}

std::string problem(const std::vector<ConvertedTensor>& tensors, const Sizes& shape) {
  return testing::error_of<ConfigError>([&] { lay_out(tensors, shape); });
}

// 0, 1, 2, … as elements of some bytes.
std::vector<std::byte> counted(i64 elements, i64 bytes) {
  std::vector<std::byte> all(static_cast<std::size_t>(elements * bytes));
  for (i64 i = 0; i < elements; ++i) {
    std::memcpy(all.data() + i * bytes, &i, static_cast<std::size_t>(bytes));
  }
  return all;
}

TEST(Tiles, ReachToWhereTheNextOneBegins) {
  const std::vector<Tile> tiles = lay_out(qkv(), {256, 64});
  ASSERT_EQ(tiles.size(), 3U);
  EXPECT_THAT(tiles[0].their_shape(), ElementsAre(128, 64));
  EXPECT_THAT(tiles[1].where.begin, ElementsAre(128, 0));
  EXPECT_THAT(tiles[1].their_shape(), ElementsAre(64, 64));
  EXPECT_THAT(tiles[2].their_shape(), ElementsAre(64, 64));
  EXPECT_THAT(lay_out({{"b", "q"}, {"b", "k", false, {.row = 3}}}, {4})[1].their_shape(),
              ElementsAre(1));
  const std::vector<Tile> of_experts = lay_out(experts(), {2, 3, 5});
  EXPECT_THAT(of_experts[0].where.begin, ElementsAre(1, 0, 0));
  EXPECT_THAT(of_experts[0].their_shape(), ElementsAre(2, 3));
  EXPECT_THAT(of_experts[3].where.begin, ElementsAre(0, 0, 2));
  EXPECT_THAT(of_experts[3].their_shape(), ElementsAre(3, 3));
}

// A whole parameter of any rank is one tile.
TEST(Tiles, OneIsTheWholeParameter) {
  for (const Sizes& shape : {Sizes{}, Sizes{0}, Sizes{7}, Sizes{2, 3}, Sizes{2, 3, 4, 5}}) {
    EXPECT_EQ(lay_out({{"w", "v"}}, shape).at(0).their_shape(), shape);
  }
}

TEST(Tiles, GapsAreErrors) {
  std::vector<ConvertedTensor> late = {{"w", "a", false, {.row = 2}}};
  EXPECT_EQ(problem(late, {4, 3}), "no tensor holds rows 0 to 1 and columns 0 to 2 of \"w\"");
  late.push_back({"w", "b", false, {.column = 1}});
  late.push_back({"w", "c"});
  EXPECT_EQ(problem(late, {4, 3}), "no tensor holds rows 2 to 3 and columns 1 to 2 of \"w\"");
  for (const i64 experts_here : {3, 8}) {
    EXPECT_EQ(problem(experts(), {experts_here, 3, 5}),
              "no tensor holds rows 0 to 2 and columns 0 to 1 of entry 2 of \"experts.up\"");
  }
  std::vector<ConvertedTensor> without = experts();
  without.pop_back();
  EXPECT_EQ(problem(without, {2, 3, 5}),
            "no tensor holds rows 0 to 2 and columns 2 to 4 of entry 0 of \"experts.up\"");
}

TEST(Tiles, OverlapsAreErrors) {
  EXPECT_EQ(problem(qkv(128, 128), {256, 64}),
            "\"model.layers.0.self_attn.k_proj.weight\" and "
            "\"model.layers.0.self_attn.v_proj.weight\" have the same place in "
            "\"layers.0.attention.qkv.weight\"");
  EXPECT_EQ(problem({{"w", "a"}, {"w", "b"}}, {3}), "\"a\" and \"b\" have the same place in \"w\"");
}

TEST(Tiles, PlacesThatTheParameterDoesNotHaveAreErrors) {
  EXPECT_EQ(problem(qkv(), {192, 64}),
            "\"model.layers.0.self_attn.v_proj.weight\" begins at [192, 0] in "
            "\"layers.0.attention.qkv.weight\", which is [192, 64]");
  EXPECT_EQ(problem({{"w", "a", false, {.row = -1}}}, {3}),
            "\"a\" begins at [-1] in \"w\", which is [3]");
  EXPECT_EQ(problem({{"w", "a", false, {.column = 1}}}, {3}),
            "\"a\" has a place in \"w\" that a [3] does not have");
  EXPECT_THAT(problem({{"w", "a", false, {.entry = 0}}}, {}), HasSubstr("does not have"));
  EXPECT_EQ(problem({{"w", "a", true}}, {3}),
            "\"a\" is transposed and no matrix: its part of \"w\" is [3]");
}

TEST(Tiles, ValuesKeepTheirBitsThereAndBack) {
  const Sizes shape = {2, 3, 5};
  const std::vector<Tile> tiles = lay_out(experts(), shape);
  for (const i64 bytes : {1, 2, 4, 8}) {
    const std::vector<std::byte> ours = counted(30, bytes);
    std::vector<std::byte> again(ours.size(), std::byte{0xff});
    for (const Tile& tile : tiles) put(tile, cut(tile, ours, bytes), again, bytes);
    EXPECT_EQ(again, ours) << bytes;
  }
  // Expert 1's "w3" is [columns, rows] of columns 2 to 4.
  const std::vector<std::byte> cut_out = cut(tiles[1], counted(30, 1), 1);
  std::vector<int> values;
  for (const std::byte value : cut_out) values.push_back(std::to_integer<int>(value));
  EXPECT_THAT(values, ElementsAre(17, 22, 27, 18, 23, 28, 19, 24, 29));
}

// A converter that says what a test wants of it.
class Tiled final : public Converter {
 public:
  explicit Tiled(std::vector<ConvertedTensor> tensors) : tensors_(std::move(tensors)) {}
  std::string_view do_model_type() const override { return "tiled"; }
  Settings do_to_ours(Claims&) const override { return {}; }
  Settings do_to_theirs(const Settings&) const override { return {}; }
  std::vector<ConvertedTensor> do_tensors(const Settings&) const override { return tensors_; }

 private:
  std::vector<ConvertedTensor> tensors_;
};

// A folder with these tensors, whose values count on.
void write_model(const TestFolder& folder, const std::vector<SafetensorsEntry>& entries) {
  i64 next = 1;
  const auto contents = [&](std::size_t i, const ByteSink& sink) {
    const i64 elements = Rectangle{{}, entries[i].shape}.elements();
    const i64 bytes = dtype_size(parse_dtype(entries[i].dtype));
    std::vector<std::byte> values(static_cast<std::size_t>(elements * bytes));
    for (std::byte& value : values) value = static_cast<std::byte>(next++ % 0x3c);
    sink(values);
  };
  write_foreign_model(folder.path(), {}, entries, contents, kForeignFileBytes);
}

TEST(Tiles, OfAllDtypesAreReadIntoOneParameter) {
  const Tiled converter({{"up", "gate", true}, {"up", "up", true, {.row = 2}}});
  for (const char* dtype : {"fp32", "bf16", "fp16", "fp64", "i64", "u8"}) {
    const TestFolder folder;
    write_model(folder, {{"gate", dtype, {3, 2}}, {"up", dtype, {3, 1}}});
    const ForeignModel model(folder.path());
    ImportedTensors imported(model, converter, {});
    imported.expect("up", {3, 3});
    imported.require_fit(folder.path());
    const i64 bytes = dtype_size(parse_dtype(dtype));
    const std::vector<std::byte> ours = imported.values("up", parse_dtype(dtype));
    const std::vector<Tile> tiles =
        lay_out({{"up", "gate", true}, {"up", "up", true, {.row = 2}}}, {3, 3});
    for (const Tile& tile : tiles) {
      EXPECT_EQ(cut(tile, ours, bytes), model.read(tile.tensor.theirs)) << dtype;
    }
  }
}

std::string misfit(const std::vector<ConvertedTensor>& tensors,
                   const Sizes& shape,
                   const std::vector<Sizes>& theirs) {
  const TestFolder folder;
  std::vector<SafetensorsEntry> entries;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    entries.push_back({tensors[i].theirs, "fp32", theirs[i]});
  }
  write_model(folder, entries);
  const ForeignModel model(folder.path());
  ImportedTensors imported(model, Tiled(tensors), {});
  imported.expect(tensors[0].ours, shape);
  return testing::error_of<ConfigError>([&] { imported.require_fit("m"); });
}

TEST(Tiles, OtherSizesAreErrors) {
  EXPECT_EQ(misfit(qkv(), {256, 64}, {{64, 64}, {64, 64}, {64, 64}}),
            "m cannot be converted: \"model.layers.0.self_attn.q_proj.weight\" is [64, 64], and "
            "rows 0 to 127 of \"layers.0.attention.qkv.weight\" were expected");
  EXPECT_EQ(misfit(qkv(), {256, 64}, {{128, 32}, {64, 64}, {64, 64}}),
            "m cannot be converted: \"model.layers.0.self_attn.q_proj.weight\" is [128, 32], and "
            "rows 0 to 127 and columns 0 to 63 of \"layers.0.attention.qkv.weight\" were expected");
  EXPECT_EQ(misfit(experts(), {2, 3, 5}, {{2, 3}, {3, 3}, {3, 2}, {3, 3}}),
            "m cannot be converted: \"0.w1\" is [3, 2], and rows 0 to 2 and columns 0 to 1 of "
            "entry 0 of \"experts.up\", transposed were expected");
  EXPECT_EQ(misfit({{"w", "v", true}}, {2, 3}, {{2, 3}}),
            "m cannot be converted: \"v\" is [2, 3], and \"w\" has [2, 3], transposed");
  EXPECT_EQ(misfit(qkv(), {256, 64}, {{128, 64}, {64, 64}}),
            "m cannot be converted: \"model.layers.0.self_attn.v_proj.weight\" is missing");
  EXPECT_EQ(misfit(qkv(), {192, 64}, {{128, 64}, {64, 64}, {64, 64}}),
            "m cannot be converted: " + problem(qkv(), {192, 64}));
}

// All tiles of an optional parameter are there, or none.
TEST(Tiles, OptionalOnesMayBeMissing) {
  const Tiled converter({{"body", "b"},
                         {"head", "h.0", false, {}, true},
                         {"head", "h.1", false, {.row = 2}, true},
                         {"bias", "c", false, {}, true}});
  const auto lacking = [&](const std::vector<SafetensorsEntry>& entries) {
    const TestFolder folder;
    write_model(folder, entries);
    const ForeignModel model(folder.path());
    const ImportedTensors imported(model, converter, {});
    imported.require_fit("m");
    std::vector<std::string> all = imported.lacking();
    EXPECT_EQ(all.size() + imported.kept().size(), 2U);
    return all;
  };
  const SafetensorsEntry b{"b", "fp32", {1}}, c{"c", "fp32", {1}}, first{"h.0", "fp32", {2}},
      second{"h.1", "fp32", {2}};
  EXPECT_THAT(lacking({b, c, first, second}), ElementsAre());
  EXPECT_THAT(lacking({b, c}), ElementsAre("head"));
  EXPECT_THAT(lacking({b}), ElementsAre("bias", "head"));
  EXPECT_EQ(testing::error_of<ConfigError>([&] {
              lacking({b, second});
            }),
            "m cannot be converted: a part of \"head\" is missing");
  EXPECT_EQ(testing::error_of<ConfigError>([&] { lacking({c}); }),
            "m cannot be converted: \"b\" is missing");
}

}  // namespace tiles_test
}  // namespace tessera
