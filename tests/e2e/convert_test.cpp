// Models of Hugging Face transformers with their tokenizers. tests/oracle has those of others.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "common/gpt2_files.hpp"
#include "train_support.hpp"

namespace tessera {
namespace convert_test {

namespace fs = std::filesystem;
using testing::Gpt2Files;
using ::testing::HasSubstr;
using testing::run_tessera;
using testing::TinyRun;

class Convert : public ::testing::Test {
 protected:
  // A model of 258 tokens in a folder of the other form, with vocab.json and merges.txt.
  void SetUp() override {
    const auto trained = run_.train(TinyRun::steps(1, "run", {"model.vocab=258"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    ASSERT_EQ(convert("run", "theirs").exit_code, 0);
    files_.merge("t", "h");
    files_.merge("th", "e");
    run_.folder.write("theirs/vocab.json", files_.vocabulary());
    run_.folder.write("theirs/merges.txt", files_.merges());
    const ProcessResult result = convert("theirs", "ours");
    if (result.err.find("without: install libpcre2-dev") != std::string::npos) {
      GTEST_SKIP() << result.err;
    }
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("its text is read by the tokenizer \"gpt2\""));
  }
  ProcessResult convert(const std::string& from,
                        const std::string& to,
                        std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"convert", "--from", run_.at(from), "--to", run_.at(to)});
    return run_tessera(more);
  }
  std::string generated(const std::string& folder, std::vector<std::string> more) const {
    more.insert(more.begin(), {"generate", "--checkpoint", run_.at(folder)});
    const ProcessResult result = run_tessera(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  std::string read(const std::string& name) const { return run_.folder.read(name); }
  TinyRun run_;
  Gpt2Files files_;
};

TEST_F(Convert, TextIsReadWithTheModelsTokenizer) {
  EXPECT_EQ(generated("ours", {"--prompt", "the th.", "--ids"}), "[257,32,256,46]\n");
  EXPECT_THAT(generated("ours", {"--prompt", "the ", "--tokens", "3"}),
              ::testing::StartsWith("the "));
  EXPECT_THAT(read("ours/model.toml"), HasSubstr("tokenizer.type = \"gpt2\"\n"));
  EXPECT_EQ(read("ours/tokenizer/merges.txt"), files_.merges());
  // A folder that has moved is found with --set; without it the error names the file.
  fs::rename(run_.at("ours"), run_.at("moved"));
  EXPECT_THAT(
      run_tessera({"generate", "--checkpoint", run_.at("moved"), "--prompt", "the", "--ids"}),
      Exits(2, "ours/tokenizer/vocab.json does not exist"));
  EXPECT_EQ(generated("moved",
                      {"--prompt",
                       "the",
                       "--ids",
                       "--set",
                       "tokenizer.path=\"" + run_.at("moved/tokenizer") + "\""}),
            "[257]\n");
}

TEST_F(Convert, TrainsOnWithTheModelsTokenizer) {
  run_.folder.write("on.toml",
                    "schema = 1\ninclude = [\"" + run_.at("ours/model.toml") +
                        "\"]\nrun = {steps = 2, out = \"" + run_.at("on") +
                        "\"}\nbatch = {global = 2, micro = 1}\nlr.peak = 1e-3\n"
                        "data = {type = \"text\", path = \"" TESSERA_SOURCE_DIR
                        "/README.md\"}\n"
                        "checkpoint.init_from = \"" +
                        run_.at("ours") + "\"\n");
  const ProcessResult result = run_tessera({"train", run_.at("on.toml")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(generated("on", {"--prompt", "the", "--ids"}), "[257]\n");
}

// A vocabulary that came from the tokenizer is as large as its table.
TEST_F(Convert, BackTellsTheSizeOfAVocabularyThatCameFromTheTokenizer) {
  const std::vector<std::string> sets = {"tokenizer.type=gpt2",
                                         "tokenizer.path=\"" + run_.at("theirs") + "\""};
  const ProcessResult trained = run_.train(TinyRun::steps(1, "auto", sets));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProcessResult back = convert("auto", "back");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(read("back/config.json"), ::testing::ContainsRegex("\"vocab_size\": 258[,\n]"));
}

TEST_F(Convert, BackTakesTheTokenizerAlong) {
  const ProcessResult back = convert("ours", "back");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("its text is read by the tokenizer \"gpt2\""));
  for (const std::string file : {"/vocab.json", "/merges.txt", "/model.safetensors"}) {
    EXPECT_EQ(read("back" + file), read("theirs" + file)) << file;
  }
  EXPECT_EQ(convert("ours", "alone", {"--no-tokenizer"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(run_.at("alone/vocab.json")));
  // Without the files there is a way out, and nothing is written.
  fs::remove(run_.at("ours/tokenizer/merges.txt"));
  const ProcessResult lost = convert("ours", "lost");
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_THAT(lost.err, HasSubstr("ours/tokenizer has vocab.json without merges.txt"));
  EXPECT_THAT(lost.err, HasSubstr("--no-tokenizer"));
  EXPECT_FALSE(fs::exists(run_.at("lost")));
}

// What a converter passes over is told, and what it could not bring too.
TEST_F(Convert, AConverterThatIsNotLoadedIsTold) {
  run_.folder.write("plugins/libtessera_mine.so", "no library");
  EXPECT_THAT(convert("ours", "back", {"--converter", "mine", "--path", run_.at("plugins")}),
              Exits(2, "no plugin brings a converter \"mine\"\n  not loaded: "));
}

// A folder of bf16 comes back as bf16, with the same bytes, also by way of a run that trains on.
TEST_F(Convert, BackInTheDtypeThatItCameIn) {
  const ProcessResult narrow = convert("ours", "narrow", {"--dtype", "bf16"});
  ASSERT_EQ(narrow.exit_code, 0) << narrow.err;
  EXPECT_THAT(narrow.out, HasSubstr("its parameters are bf16\n"));
  EXPECT_THAT(
      narrow.err,
      ::testing::ContainsRegex("[0-9]+ values of [0-9]+ parameters are rounded to bf16; the "
                               "largest error is .*, in "));
  const auto dtype = [&](const std::string& folder) {
    return nlohmann::json::parse(read(folder + "/config.json"))["torch_dtype"];
  };
  EXPECT_EQ(dtype("narrow"), "bfloat16");
  EXPECT_EQ(dtype("theirs"), "float32");
  ASSERT_EQ(convert("narrow", "again").exit_code, 0);
  EXPECT_THAT(read("again/model.toml"), HasSubstr("checkpoint.convert_dtype = \"bf16\"\n"));
  EXPECT_THAT(read("ours/model.toml"), ::testing::Not(HasSubstr("convert_dtype")));
  const ProcessResult back = convert("again", "back");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(back.err, "");
  EXPECT_EQ(read("back/model.safetensors"), read("narrow/model.safetensors"));
  EXPECT_EQ(read("back/config.json"), read("narrow/config.json"));

  ASSERT_EQ(convert("again", "wide", {"--dtype", "fp32"}).exit_code, 0);
  EXPECT_EQ(dtype("wide"), "float32");
  ASSERT_EQ(convert("wide", "wide_ours").exit_code, 0);
  EXPECT_EQ(run_tessera({"checkpoint", "diff", run_.at("again"), run_.at("wide_ours")}).exit_code,
            0);
  EXPECT_THAT(convert("narrow", "no", {"--dtype", "bf16"}),
              Exits(2, "--dtype is for a checkpoint that becomes a model"));
  EXPECT_THAT(convert("ours", "no", {"--dtype", "int8"}), Exits(2, "--dtype"));

  run_.folder.write("on.toml",
                    "schema = 1\ninclude = [\"" + run_.at("again/model.toml") +
                        "\"]\nrun = {steps = 1, out = \"" + run_.at("on") +
                        "\"}\nbatch = {global = 1, micro = 1}\nlr.peak = 1e-3\n"
                        "data = {type = \"text\", path = \"" TESSERA_SOURCE_DIR
                        "/README.md\"}\ncheckpoint.init_from = \"" +
                        run_.at("again") + "\"\n");
  ASSERT_EQ(run_tessera({"train", run_.at("on.toml")}).exit_code, 0);
  const ProcessResult trained = convert("on", "trained");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("are rounded to bf16; the largest error is "));
  EXPECT_EQ(dtype("trained"), "bfloat16");
}

// Files are as large as those of transformers: none is larger, unless a single tensor is.
TEST_F(Convert, BackInSeveralFilesWithTheirIndex) {
  const ProcessResult back = convert("ours", "back", {"--max-shard-size", "40KB"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  const auto index = nlohmann::json::parse(read("back/model.safetensors.index.json"));
  std::set<std::string> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) files.insert(file);
  ASSERT_GT(files.size(), 2U);
  i64 bytes = 0;
  for (const std::string& file : files) {
    EXPECT_THAT(file, ::testing::EndsWith(fmt::format("-of-{:05}.safetensors", files.size())));
    EXPECT_LE(fs::file_size(run_.at("back/" + file)), 40'000U + 4096U);
    bytes += static_cast<i64>(fs::file_size(run_.at("back/" + file)));
  }
  const auto headers = static_cast<i64>(4096 * files.size());
  EXPECT_LE(index["metadata"]["total_size"].get<i64>(), bytes);
  EXPECT_GT(index["metadata"]["total_size"].get<i64>(), bytes - headers);
  EXPECT_FALSE(fs::exists(run_.at("back/model.safetensors")));
  ASSERT_EQ(convert("back", "again").exit_code, 0);
  EXPECT_THAT(convert("back", "no", {"--max-shard-size", "40KB"}),
              Exits(2, "--max-shard-size is for a checkpoint that becomes a model"));
  EXPECT_EQ(run_tessera({"checkpoint", "diff", run_.at("ours"), run_.at("again")}).exit_code, 0);
}

TEST_F(Convert, WithoutItsTypeAModelNeedsTheNameOfAConverter) {
  auto config = nlohmann::json::parse(read("theirs/config.json"));
  ASSERT_EQ(config.erase("model_type"), 1U);
  run_.folder.write("theirs/config.json", config.dump());
  EXPECT_THAT(convert("theirs", "untold"),
              Exits(2,
                    "theirs/config.json: the key \"model_type\" is missing, which says what "
                    "converter to take: name one with --converter; there are "));
  const ProcessResult named = convert("theirs", "named", {"--converter", "gpt2"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  config["model_type"] = "bird";
  run_.folder.write("theirs/config.json", config.dump());
  EXPECT_THAT(convert("theirs", "unknown"),
              Exits(2, "there is no converter for model_type \"bird\"; there are "));
}

TEST_F(Convert, AFolderMayEndWithASlash) {
  ASSERT_EQ(convert("theirs/", "again/").exit_code, 0);
  EXPECT_EQ(read("again/index.json"), read("ours/index.json"));
  ASSERT_EQ(convert("again/", "back/").exit_code, 0);
  EXPECT_EQ(read("back/model.safetensors"), read("theirs/model.safetensors"));
}

TEST_F(Convert, AModelThatCannotBeIsAnErrorOfItsConfigJson) {
  auto config = nlohmann::json::parse(read("theirs/config.json"));
  config["n_head"] = 5;
  run_.folder.write("theirs/config.json", config.dump());
  EXPECT_THAT(convert("theirs", "wrong"),
              Exits(2,
                    "theirs/config.json, as TOML of converter gpt2:",
                    "hidden size 24 does not divide into 5"));
}

// One step with these settings, as a model of the other form in "theirs".
ProcessResult to_theirs(const TinyRun& run, const std::vector<std::string>& sets) {
  const ProcessResult trained = run.train(TinyRun::steps(1, "run", sets));
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  return run_tessera({"convert", "--from", run.at("run"), "--to", run.at("theirs")});
}

TEST(ConvertBack, BlocksOfSeveralKindsAreRefused) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"model.blocks.b.norm.eps", "0.1"},
           {"model.blocks.b.attention.causal", "false"},
           {"model.blocks.b.attention.heads", "2"},
           {"model.blocks.b.mlp.ffn", "48"}}) {
    const TinyRun run;
    EXPECT_THAT(
        to_theirs(run, {"model.pattern=\"a b\"", "model.blocks.a={}", key + "=" + value}),
        Exits(2, key + " = " + value + " differs from [model.block]: GPT-2 has blocks of one kind"))
        << key;
    EXPECT_FALSE(fs::exists(run.at("theirs")));
  }
}

TEST(ConvertBack, KindsThatAreAlikeAreOne) {
  const TinyRun run;
  const ProcessResult back = to_theirs(run,
                                       {"model.pattern=\"a b\"",
                                        "model.blocks.a={}",
                                        "model.blocks.b.mlp.ffn=48",
                                        "model.block.mlp.ffn=48"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  const ProcessResult ours =
      run_tessera({"convert", "--from", run.at("theirs"), "--to", run.at("ours")});
  EXPECT_EQ(ours.exit_code, 0) << ours.err;
}

// The embedding may have a larger table than model.positions says.
TEST(ConvertBack, PositionsAreThoseOfTheTable) {
  const TinyRun run;
  const ProcessResult back = to_theirs(run, {"model.embedding.positions=64"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  const auto config = nlohmann::json::parse(run.folder.read("theirs/config.json"));
  EXPECT_EQ(config["n_positions"], 64);
  EXPECT_EQ(config["n_ctx"], 64);
  const ProcessResult ours =
      run_tessera({"convert", "--from", run.at("theirs"), "--to", run.at("ours")});
  EXPECT_EQ(ours.exit_code, 0) << ours.err;
}

TEST_F(Convert, ValuesThatAreNotFiniteAreAnErrorWithoutARun) {
  std::string model = read("theirs/model.safetensors");
  model.replace(model.size() - 4, 4, "\xff\xff\xff\xff");  // NaN in the last tensor
  run_.folder.write("theirs/model.safetensors", model);
  EXPECT_THAT(convert("theirs", "broken"),
              Exits(1,
                    "\" has values that are not finite, as after a divergence: training cannot "
                    "go on from them"));
  EXPECT_FALSE(fs::exists(run_.at("broken")));
}

TEST_F(Convert, HalfATokenizerIsAnErrorAndNoTokenizerAnOption) {
  fs::remove(run_.at("theirs/merges.txt"));
  EXPECT_THAT(convert("theirs", "half"),
              Exits(2, "theirs has vocab.json without merges.txt; --no-tokenizer"));
  const ProcessResult alone = convert("theirs", "alone", {"--no-tokenizer"});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_THAT(alone.out,
              HasSubstr("--no-tokenizer: its text is read by the tokenizer \"byte\", a token a "
                        "byte\n"));
  EXPECT_EQ(generated("alone", {"--prompt", "th", "--ids"}), "[116,104]\n");
  EXPECT_FALSE(fs::exists(run_.at("alone/tokenizer")));
  run_.folder.write("theirs/merges.txt", "no merges");
  const ProcessResult broken = convert("theirs", "broken");
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("merges.txt:1: \"no merges\" needs \"no\""));
  EXPECT_THAT(broken.err, HasSubstr("; --no-tokenizer converts the model alone"));
  EXPECT_FALSE(fs::exists(run_.at("broken")));
}

}  // namespace convert_test
}  // namespace tessera
