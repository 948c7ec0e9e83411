// Nothing in the folder of another program's model is passed over in silence.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/gpt2_files.hpp"
#include "train_support.hpp"

namespace tessera {
namespace convert_folder_test {

using nlohmann::json;
using testing::Gpt2Files;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_tessera;
using testing::TinyRun;

class ConvertFolder : public ::testing::Test {
 protected:
  // A model of 259 tokens in "theirs", without a tokenizer.
  void SetUp() override {
    const auto trained = run_.train(TinyRun::steps(1, "run", {"model.vocab=259"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    ASSERT_EQ(convert("run", "theirs").exit_code, 0);
    config_ = json::parse(read("theirs/config.json"));
    files_.merge("t", "h");
    files_.merge("th", "e");
    files_.add("<|endoftext|>");
  }
  ProcessResult convert(const std::string& from,
                        const std::string& to,
                        std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"convert", "--from", run_.at(from), "--to", run_.at(to)});
    return run_tessera(more);
  }
  // What convert says of "theirs", which it refuses.
  std::string refused(const std::vector<std::string>& more = {}) const {
    const ProcessResult result = convert("theirs", "refused", more);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_FALSE(std::filesystem::exists(run_.at("refused")));
    return result.err;
  }
  std::string refused_with(const std::string& key, const json& value) const {
    json changed = config_;
    changed[key] = value;
    write("config.json", changed);
    return refused();
  }
  void write(const std::string& file, const json& content) const {
    run_.folder.write("theirs/" + file, content.dump());
  }
  std::string read(const std::string& name) const { return run_.folder.read(name); }
  std::string ids(const std::string& folder, const std::string& text) const {
    const ProcessResult result =
        run_tessera({"generate", "--checkpoint", run_.at(folder), "--prompt", text, "--ids"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  // The form that transformers 5 writes.
  json tokenizer() const {
    json tokenizer = json::parse(R"({
      "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
      "added_tokens": [{"id": 258, "content": "<|endoftext|>", "single_word": false,
                        "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                        "use_regex": true},
      "post_processor": {"type": "TemplateProcessing",
                         "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                         "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                  {"Sequence": {"id": "B", "type_id": 1}}],
                         "special_tokens": {}},
      "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                  "use_regex": true},
      "model": {"type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false,
                "byte_fallback": false, "ignore_merges": false,
                "merges": [["t", "h"], ["th", "e"]]}})");
    tokenizer["model"]["vocab"] = json::parse(files_.vocabulary());
    return tokenizer;
  }
  TinyRun run_;
  Gpt2Files files_;
  json config_;
};

#define SKIP_WITHOUT_PCRE2(result)                                             \
  if ((result).err.find("without: install libpcre2-dev") != std::string::npos) \
  GTEST_SKIP() << (result).err

TEST_F(ConvertFolder, TokenizerJsonAloneIsRead) {
  write("tokenizer.json", tokenizer());
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("its text is read by the tokenizer \"gpt2\"\n"));
  EXPECT_EQ(ids("ours", "the th<|endoftext|>."), "[257,32,256,258,46]\n");
  // Back: the same tokenizer, and the ends of texts have their numbers.
  ASSERT_EQ(convert("ours", "back").exit_code, 0);
  EXPECT_EQ(read("back/tokenizer.json"), read("theirs/tokenizer.json"));
  const json back = json::parse(read("back/config.json"));
  EXPECT_EQ(back["eos_token_id"], 258);
  EXPECT_EQ(back["bos_token_id"], 258);
}

TEST_F(ConvertFolder, MergesMayBeStringsAndTokensLieBeyondTheVocabulary) {
  json changed = tokenizer();
  changed["model"]["merges"] = {"t h", "th e"};
  changed["model"].erase("type");  // as in GPT-2's own file
  changed["model"]["vocab"].erase("<|endoftext|>");
  write("tokenizer.json", changed);
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ids("ours", "the<|endoftext|>"), "[257,258]\n");
}

// The model has no row for it: transformers would look beyond the table.
TEST_F(ConvertFolder, ATokenBeyondTheModelsTableIsTextAndSaid) {
  json changed = tokenizer();
  changed["added_tokens"].push_back({{"id", 259}, {"content", "<|pad|>"}});
  write("tokenizer.json", changed);
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("number \"<|pad|>\" 259; it is read as text"));
  EXPECT_EQ(ids("ours", "<|pad|>"), "[60,124,112,97,100,124,62]\n");
}

TEST_F(ConvertFolder, AnotherTokenizerIsRefusedUnlessTheModelAloneIsAskedFor) {
  const auto with = [&](const char* path, const json& value) {
    json changed = tokenizer();
    changed[json::json_pointer(path)] = value;
    write("tokenizer.json", changed);
    return refused();
  };
  for (const auto& [path, value, word] : std::vector<std::tuple<const char*, json, const char*>>{
           {"/version", "2.0", " has version = \"2.0\"; only "},
           {"/model/type", "Unigram", " has model.type = \"Unigram\"; only "},
           {"/model/dropout", 0.1, " has model.dropout = 0.1; only 0.0 "},
           {"/model/ignore_merges", true, " has model.ignore_merges = true"},
           {"/normalizer", {{"type", "NFC"}}, " has normalizer.type = \"NFC\": the tokenizer"},
           {"/pre_tokenizer/add_prefix_space", true, " has pre_tokenizer.add_prefix_space = true"},
           {"/post_processor", {{"type", "BertProcessing"}}, " has post_processor.type = \"Bert"},
           {"/added_tokens/0/lstrip", true, ": \"<|endoftext|>\" has lstrip = true; only false"},
           {"/added_tokens/0/lazy", true, ": \"<|endoftext|>\" has lazy = true, which the "},
           {"/model/sampling", 3, " has model.sampling = 3, which the tokenizer gpt2 does not"},
           {"/pre_tokenizer/digits", 1, " has pre_tokenizer.digits = 1, which the tokenizer"},
           {"/overrides", {{"a", "b"}}, " has overrides.a = \"b\", which the tokenizer gpt2"}}) {
    const std::string text = with(path, value);
    EXPECT_THAT(text, HasSubstr(std::string("theirs/tokenizer.json") + word)) << path;
    EXPECT_THAT(text, HasSubstr("; --no-tokenizer converts the model alone"));
  }
  const ProcessResult alone = convert("theirs", "alone", {"--no-tokenizer"});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(ids("alone", "th"), "[116,104]\n");
  std::filesystem::remove(run_.at("theirs/tokenizer.json"));
  run_.folder.write("theirs/tokenizer.model", "sentences");
  EXPECT_THAT(refused(), HasSubstr("theirs/tokenizer.model is of a tokenizer that the converter"));
}

TEST_F(ConvertFolder, BothFormsOfATokenizerMustAgree) {
  write("tokenizer.json", tokenizer());
  run_.folder.write("theirs/vocab.json", files_.vocabulary());
  run_.folder.write("theirs/merges.txt", files_.merges());
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  run_.folder.write("theirs/merges.txt", "#version: 0.2\nt h\n");
  EXPECT_THAT(refused(), HasSubstr("tokenizer.json of another vocabulary than vocab.json"));
}

TEST_F(ConvertFolder, FilesBesideTheVocabularySayWhatIsOneToken) {
  run_.folder.write("theirs/vocab.json", files_.vocabulary());
  run_.folder.write("theirs/merges.txt", files_.merges());
  write("tokenizer_config.json",
        {{"tokenizer_class", "GPT2Tokenizer"},
         {"model_max_length", 1e30},
         {"eos_token", {{"content", "the"}, {"lstrip", false}}},
         {"added_tokens_decoder", {{"257", {{"content", "the"}}}}}});
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ids("ours", "othe"), "[111,257]\n");  // "o" and "the" are one word
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"add_prefix_space", true}, {"add_bos_token", true}, {"window", 8}}) {
    write("tokenizer_config.json", {{key, value}});
    EXPECT_THAT(refused(), HasSubstr("tokenizer_config.json has " + key + " = "));
  }
  write("tokenizer_config.json", json::object());
  write("added_tokens.json", {{"<|pad|>", 200}});
  EXPECT_THAT(refused(), HasSubstr("each once, but \"<|pad|>\" has 200"));
}

// Another program's generate stops there, so what it gets back says it again.
TEST_F(ConvertFolder, NumbersOfTokensAreKeptWhereTheTokenizerSaysOthers) {
  write("tokenizer.json", tokenizer());
  json changed = config_;
  changed.update({{"eos_token_id", 256}, {"bos_token_id", 50256}, {"pad_token_id", 0}});
  write("config.json", changed);
  write("generation_config.json", {{"eos_token_id", {258, 257, 259}}});
  const ProcessResult result = convert("theirs", "ours");
  SKIP_WITHOUT_PCRE2(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("theirs/config.json has bos_token_id = 50256, and the model has no such "
                        "token among its 259: not kept"));
  EXPECT_THAT(result.err, HasSubstr("theirs/generation_config.json has eos_token_id = 259, and"));
  for (const char* back : {"back", "back_again"}) {
    ASSERT_EQ(convert("ours", back).exit_code, 0);
    const json there = json::parse(read(fmt::format("{}/config.json", back)));
    EXPECT_EQ(there["eos_token_id"], json({258, 257}));
    EXPECT_EQ(there["pad_token_id"], 0);
    EXPECT_EQ(there["bos_token_id"], 258);  // the tokenizer's
    std::filesystem::remove_all(run_.at("ours"));
    ASSERT_EQ(convert(back, "ours").exit_code, 0);
  }
  changed["eos_token_id"] = "end";
  write("config.json", changed);
  EXPECT_THAT(refused(), HasSubstr("\"eos_token_id\" is \"end\", which is no number of a token"));
}

TEST_F(ConvertFolder, NumbersOfTokensAreToldWhereNoTokenizerKeepsThem) {
  json changed = config_;
  changed["eos_token_id"] = 5;
  write("config.json", changed);
  EXPECT_THAT(convert("theirs", "ours"),
              Exits(0,
                    "theirs: eos_token_id = 5 is kept with a tokenizer only, and none is "
                    "converted"));
}

TEST_F(ConvertFolder, AnotherClassOfModelIsRefused) {
  for (const json& classes : {json({"GPT2ForSequenceClassification"}),
                              json({"GPT2LMHeadModel", "Other"}),
                              json("GPT2LMHeadModel")}) {
    EXPECT_THAT(refused_with("architectures", classes),
                HasSubstr("; the converter reads GPT2LMHeadModel and GPT2Model"));
  }
  json changed = config_;
  changed["architectures"] = {"GPT2Model"};
  write("config.json", changed);
  EXPECT_THAT(convert("theirs", "ours"),
              Exits(0,
                    "theirs/config.json has architectures = [\"GPT2Model\"]: the model is read "
                    "as GPT2LMHeadModel"));
}

TEST_F(ConvertFolder, AFolderWithoutATokenizerSaysWhatReadsText) {
  EXPECT_THAT(convert("theirs", "ours"),
              Prints(0,
                     "the folder has no tokenizer: its text is read by the tokenizer \"byte\", a "
                     "token a byte\n"));
  const json back = json::parse(read("theirs/config.json"));
  EXPECT_TRUE(back.at("eos_token_id").is_null());  // an absent key means 50256 there
  EXPECT_TRUE(back.at("bos_token_id").is_null());
}

TEST_F(ConvertFolder, KeysThatChangeTheModelOrAreUnknownAreRefused) {
  EXPECT_THAT(refused_with("quantization_config", {{"bits", 4}}),
              HasSubstr("quantization_config.bits = 4: quantized models are not read"));
  EXPECT_THAT(refused_with("num_hidden_layers", 7),
              HasSubstr("and num_hidden_layers = 7: it is one number"));
  EXPECT_THAT(
      refused_with("rope_theta", 10000),
      HasSubstr("theirs/config.json has rope_theta = 10000, which the converter \"gpt2\" does "
                "not know"));
  EXPECT_THAT(refused_with("activation_function", "relu"),
              HasSubstr("activation_function = \"relu\"; only the forms of gelu are supported"));
  json other = config_;
  other["num_hidden_layers"] = other["n_layer"];
  other.erase("n_layer");
  write("config.json", other);
  const ProcessResult named = convert("theirs", "named");
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

TEST_F(ConvertFolder, FilesThatAreUnknownAreRefused) {
  for (const char* file : {"README.md", ".gitattributes", "pytorch_model.bin", "LICENSE"}) {
    run_.folder.write(fmt::format("theirs/{}", file), "x");
  }
  std::filesystem::create_directory(run_.at("theirs/onnx"));
  write("generation_config.json", {{"transformers_version", "5"}, {"temperature", 0.7}});
  EXPECT_THAT(convert("theirs", "ours"),
              Exits(0, "generation_config.json is not kept: temperature = 0.7"));
  write("generation_config.json", {{"mystery", 1}});
  EXPECT_THAT(refused(), HasSubstr("generation_config.json has mystery = 1"));
  write("generation_config.json", json::object());
  write("adapter_config.json", json::object());
  EXPECT_THAT(refused(), HasSubstr("theirs/adapter_config.json is an adapter"));
  std::filesystem::remove(run_.at("theirs/adapter_config.json"));
  write("steering.json", json::object());
  EXPECT_THAT(refused(),
              HasSubstr("theirs has steering.json, which the converter \"gpt2\" does not "
                        "know: move away"));
}

TEST_F(ConvertFolder, EveryFormOfGeluIsTakenForWhatItIs) {
  for (const auto& [there, here] : std::vector<std::pair<std::string, std::string>>{
           {"gelu_new", "gelu"}, {"gelu_pytorch_tanh", "gelu"}, {"gelu", "gelu_erf"}}) {
    json changed = config_;
    changed["activation_function"] = there;
    write("config.json", changed);
    ASSERT_EQ(convert("theirs", there).exit_code, 0);
    EXPECT_THAT(read(there + "/model.toml"),
                HasSubstr("model.block.mlp.activation = \"" + here + "\"\n"));
    ASSERT_EQ(convert(there, there + "_back").exit_code, 0);
    const json back = json::parse(read(there + "_back/config.json"));
    EXPECT_EQ(back["activation_function"], here == "gelu" ? "gelu_new" : "gelu");
  }
}

// The header and the data of a safetensors file.
struct Tensors {
  explicit Tensors(const std::string& file) {
    u64 length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = json::parse(file.substr(8, length));
    data = file.substr(8 + length);
  }
  std::string file() const {
    const std::string text = header.dump();
    const u64 length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
  }
  json header;
  std::string data;
};

TEST_F(ConvertFolder, ATiedTableHasEitherName) {
  ASSERT_EQ(convert("theirs", "ours").exit_code, 0);
  const std::string wte = "transformer.wte.weight", head = "lm_head.weight";
  const Tensors original(read("theirs/model.safetensors"));
  const auto same_with = [&](const Tensors& tensors, const std::string& to) {
    run_.folder.write("theirs/model.safetensors", tensors.file());
    const ProcessResult result = convert("theirs", to);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(run_tessera({"checkpoint", "diff", run_.at("ours"), run_.at(to)}).exit_code, 0);
  };
  Tensors both = original;  // two names, equal values
  both.header[head] = both.header[wte];
  both.header[head]["data_offsets"] = {both.data.size(), 0};
  const auto begin = original.header[wte]["data_offsets"][0].get<std::size_t>(),
             end = original.header[wte]["data_offsets"][1].get<std::size_t>();
  both.data += original.data.substr(begin, end - begin);
  both.header[head]["data_offsets"][1] = both.data.size();
  same_with(both, "both");
  Tensors renamed = original;  // as safetensors.torch.save_model has it, and without its note
  renamed.header[head] = renamed.header[wte];
  renamed.header.erase(wte);
  same_with(renamed, "renamed");
  renamed.header["__metadata__"][wte] = head;
  same_with(renamed, "alias");
  // A head that was trained on its own makes another model.
  Tensors apart = both;
  apart.data[apart.data.size() - 2] ^= 1;
  run_.folder.write("theirs/model.safetensors", apart.file());
  const ProcessResult result = convert("theirs", "apart");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr("config.json makes \"lm_head.weight\" a second name of \"transformer.wte.weight"
                "\", but the files hold other values there: they are read as two, with "
                "tie_word_embeddings = false"));
  EXPECT_THAT(read("apart/model.toml"), HasSubstr("model.tied_embeddings = false\n"));
  ASSERT_EQ(convert("apart", "apart_back").exit_code, 0);
  EXPECT_EQ(json::parse(read("apart_back/config.json"))["tie_word_embeddings"], false);
}

TEST_F(ConvertFolder, AnIndexMayListATiedTableThatNoFileHas) {
  ASSERT_EQ(convert("run", "cut", {"--max-shard-size", "40KB"}).exit_code, 0);
  json index = json::parse(read("cut/model.safetensors.index.json"));
  index["weight_map"]["lm_head.weight"] = index["weight_map"]["transformer.wte.weight"];
  run_.folder.write("cut/model.safetensors.index.json", index.dump());
  const ProcessResult listed = convert("cut", "listed");
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  index["weight_map"]["more.weight"] = index["weight_map"]["transformer.wte.weight"];
  run_.folder.write("cut/model.safetensors.index.json", index.dump());
  const ProcessResult more = convert("cut", "more");
  EXPECT_EQ(more.exit_code, 2);
  EXPECT_THAT(more.err, HasSubstr("\"more.weight\" is not known to the converter"));
}

}  // namespace convert_folder_test
}  // namespace tessera
