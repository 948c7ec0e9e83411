// Folders of Hugging Face transformers that are broken.
#include "kernel/checkpoint/foreign_model.hpp"

#include <gmock/gmock.h>

#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace foreign_model_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForeignModels : public ::testing::Test {
 protected:
  void SetUp() override {
    SafetensorsWriter out(folder_.at("a.safetensors"), {{"w", "fp32", {2}}});
    const std::array<float, 2> values = {1, 2};
    out.next([&](const ByteSink& sink) { sink(std::as_bytes(std::span(values))); });
    out.finish();
    folder_.write("config.json", "{}");
    index("a.safetensors");
  }
  void index(const std::string& file) const {
    folder_.write("model.safetensors.index.json", "{\"weight_map\": {\"w\": \"" + file + "\"}}");
  }
  Settings settings(const std::string& config) const {
    folder_.write("config.json", config);
    return ForeignModel(folder_.path()).settings();
  }
  TestFolder folder_;
};

TEST_F(ForeignModels, AreReadByTheirIndex) {
  const ForeignModel model(folder_.path());
  EXPECT_THAT(model.names(), ElementsAre("w"));
  EXPECT_EQ(model.read("w").size(), 8U);
}

// transformers takes this one of a folder that was written twice.
TEST_F(ForeignModels, OneFileGoesBeforeAnIndex) {
  std::filesystem::copy_file(folder_.at("a.safetensors"), folder_.at("model.safetensors"));
  index("gone.safetensors");
  EXPECT_THAT(ForeignModel(folder_.path()).names(), ElementsAre("w"));
}

// What an index lists may be the second name of a tied table, which no file need have.
TEST_F(ForeignModels, WhatOnlyTheIndexListsIsANameWithoutATensor) {
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"w": "a.safetensors", "tied": "a.safetensors"}})");
  const ForeignModel model(folder_.path());
  EXPECT_THAT(model.names(), ElementsAre("tied", "w"));
  EXPECT_TRUE(model.has("w"));
  EXPECT_FALSE(model.has("tied"));
}

TEST_F(ForeignModels, TensorsThatTheIndexDoesNotListAreThereToo) {
  folder_.write("model.safetensors.index.json", R"({"weight_map": {"v": "a.safetensors"}})");
  EXPECT_THAT(ForeignModel(folder_.path()).names(), ElementsAre("v", "w"));
  std::filesystem::copy_file(folder_.at("a.safetensors"), folder_.at("b.safetensors"));
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}})");
  EXPECT_THAT(text_of<Error>([&] { ForeignModel model(folder_.path()); }),
              HasSubstr("is ambiguous: tensor \"w\" is in a.safetensors and in b.safetensors"));
}

// A line of its own could look like one of the program's.
TEST_F(ForeignModels, NamesStartNoLinesOfTheirOwn) {
  const auto told = [&](const std::string& map) {
    folder_.write("model.safetensors.index.json", "{\"weight_map\": " + map + "}");
    return text_of<Error>([&] { ForeignModel model(folder_.path()); });
  };
  EXPECT_THAT(told(R"({"a\nb": 1})"), HasSubstr(R"(json is damaged: "a\nb" has no file)"));
  EXPECT_THAT(told(R"({"w": "a\n/b"})"), HasSubstr(R"("a\n/b" is not a valid name of a file)"));
  EXPECT_THAT(told(R"({"w": "a\nb"})"), HasSubstr(R"(/a\nb: No such file)"));
}

// As safetensors.torch.save_model writes two names of one memory.
TEST_F(ForeignModels, AnAliasOfTheMetadataIsAName) {
  SafetensorsWriter out(folder_.at("model.safetensors"),
                        {{"kept", "fp32", {2}}},
                        {{"format", "pt"}, {"gone", "kept"}});
  const std::array<float, 2> values = {1, 2};
  out.next([&](const ByteSink& sink) { sink(std::as_bytes(std::span(values))); });
  out.finish();
  const ForeignModel model(folder_.path());
  EXPECT_THAT(model.names(), ElementsAre("kept"));
  EXPECT_TRUE(model.has("gone"));
  EXPECT_FALSE(model.has("format"));
  EXPECT_EQ(model.read("gone"), model.read("kept"));
}

TEST_F(ForeignModels, SettingsKeepTheirValues) {
  const Settings all = settings(R"({"a": {"b": 1, "c": null}, "d": [1, [true, null], {"x": 2}],)"
                                R"( "big": 18446744073709551615, "small": -9223372036854775808})");
  EXPECT_EQ(all.at("a.b"), Value(1));
  EXPECT_FALSE(all.contains("a.c"));
  EXPECT_EQ(all.at("d").text(), R"([1, [true, "null"], "{\"x\":2}"])");
  EXPECT_EQ(all.at("big"), Value(18446744073709551615.0));  // it used to be -1
  EXPECT_EQ(all.at("small"), Value(std::numeric_limits<i64>::min()));
}

TEST_F(ForeignModels, WhatLiesDeepInEachOtherIsAnError) {
  constexpr int kDeep = 100'000;
  std::string objects, lists = "{\"a\": ";
  for (int i = 0; i < kDeep; ++i) {
    objects += "{\"a\":";
    lists += '[';
  }
  objects += "1" + std::string(kDeep, '}');
  lists += std::string(kDeep, ']') + "}";
  for (const std::string& config : {objects, lists}) {
    EXPECT_THAT(text_of<Error>([&] { settings(config); }),
                HasSubstr("config.json is damaged: more than 32 objects and arrays"));
  }
}

TEST_F(ForeignModels, AnIndexNamesFilesBesideIt) {
  for (const std::string file : {"", ".", "..", "../a.safetensors", "/a.safetensors", "b/a"}) {
    index(file);
    EXPECT_THAT(text_of<Error>([&] { ForeignModel model(folder_.path()); }),
                HasSubstr("\"" + file + "\" is not a valid name of a file beside it"));
  }
}

TEST_F(ForeignModels, ASizeBeyondAllMemoryIsAnError) {
  const std::string header = R"({"w":{"dtype":"F64","shape":[1152921504606846976],)"
                             R"("data_offsets":[0,8]}})";
  const u64 length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  folder_.write("a.safetensors", file + header + "12345678");
  const ForeignModel model(folder_.path());
  EXPECT_THAT(text_of<Error>([&] { model.read("w"); }), HasSubstr("has 8 bytes for 11529215046"));
}

}  // namespace foreign_model_test
}  // namespace tessera
