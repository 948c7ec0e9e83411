#include "kernel/data/build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tessera/io/token_file.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace build_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

BuildSummary build(const std::string& file,
                   const std::vector<std::string>& sets = {},
                   bool force = false) {
  const Config config = Config::load({file}, sets, TableArrays::numbered);
  return build_corpus(BuildConfig::load(config, build_plugins()), force);
}

std::string bytes_of(const std::string& file) { return std::string(DataFile(file).text()); }

// Their ids as they lie in the file.
std::vector<std::string> stored_documents(const std::string& prefix) {
  const TokenFile file(prefix, "test");
  const TokenIndex& index = file.index();
  std::vector<std::string> out;
  for (i64 i = 0; i < index.documents(); ++i) {
    const i64 begin = index.document_begin(i);
    out.emplace_back(file.bytes(begin, index.document_begin(i + 1) - begin));
  }
  return out;
}

// Of bytes as tokens, of two bytes each.
std::vector<std::string> documents_in(const std::string& prefix) {
  std::vector<std::string> out = stored_documents(prefix);
  for (std::string& document : out) {
    for (std::size_t i = 0; i < document.size() / 2; ++i) document[i] = document[2 * i];
    document.resize(document.size() / 2);
  }
  return out;
}

// Every file of a folder that an output made.
std::map<std::string, std::string> files_of(const TestFolder& folder, const std::string& prefix) {
  std::map<std::string, std::string> files;
  for (const char* end : {".bin", ".idx", ".report.json", ".removed.jsonl"}) {
    files[end] = bytes_of(folder.at(prefix + end));
  }
  return files;
}

// Documents of 1,000 digits that depend on their number alone.
std::string lines_of(u32 begin, u32 end) {
  std::string text;
  for (u32 i = begin; i < end; ++i) {
    std::mt19937_64 random(i);
    text += "{\"text\":\"";
    for (int k = 0; k < 50; ++k) text += std::to_string(random() | u64{1} << 63) + " ";
    text += "\"}\n";
  }
  return text;
}

const std::string kHead = "schema = 1\ninput = [\"*.jsonl\"]\noutput = \"out\"\n";
const std::string kByte = "tokenizer = {type = \"byte\"}\n";

TEST(Build, DocumentsBecomeATokenFile) {
  const TestFolder folder;
  folder.write("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"\"}\n");
  folder.write("b.jsonl", "{\"id\":3,\"text\":\"c\xC3\xA9\"}\n");
  const BuildSummary made = build(folder.write("c.toml", kHead + kByte));
  EXPECT_EQ(made.documents, 3);
  EXPECT_EQ(made.tokens, 5);
  EXPECT_THAT(documents_in(folder.at("out")), ElementsAre("ab", "", "c\xC3\xA9"));
  const std::string report = folder.read("out.report.json");
  EXPECT_THAT(report,
              AllOf(HasSubstr(R"("input":["a.jsonl","b.jsonl"],"stages":[],"documents":3)"),
                    HasSubstr(R"("tokenizer":"byte")")));
  EXPECT_FALSE(std::filesystem::exists(folder.at("out.build")));
  EXPECT_FALSE(std::filesystem::exists(folder.at("out.removed.jsonl")));

  const std::string again = error_of<ConfigError>([&] { build(folder.at("c.toml")); });
  EXPECT_THAT(again, HasSubstr("is there already: give another output, or --force"));
  folder.write("a.jsonl", "{\"text\":\"new\"}\n");
  folder.write("out.removed.jsonl", "of an earlier build");  // no input, though its name fits
  build(folder.at("c.toml"), {}, true);
  EXPECT_THAT(documents_in(folder.at("out")), ElementsAre("new", "c\xC3\xA9"));
  EXPECT_FALSE(std::filesystem::exists(folder.at("out.removed.jsonl")));
  // Nor is its report.
  build(folder.at("c.toml"), {"input=[\"" + folder.at("*.json*") + "\"]"}, true);
  EXPECT_THAT(documents_in(folder.at("out")), ElementsAre("new", "c\xC3\xA9"));
  const std::string report_file = folder.at("same/out.report.json");
  std::filesystem::create_directory_symlink(".", folder.at("same"));
  EXPECT_EQ(error_of<ConfigError>(
                [&] { build(folder.at("c.toml"), {"input=[\"" + report_file + "\"]"}, true); }),
            "output is one of the input files: " + report_file + " would be replaced");
}

TEST(Build, StagesAreCountedAndWhatGoesIsNamed) {
  const TestFolder folder;
  const std::string alike = "the same text but for a few characters at its end";
  folder.write("a.jsonl",
               "{\"id\":\"first\",\"text\":\"" + alike +
                   " 1\"}\n{\"text\":\"short\"}\n{\"text\":\"" + alike +
                   "\\r\\n\"}\n{\"id\":\"other\",\"text\":\"quite another long text\"}\n");
  const BuildSummary made =
      build(folder.write("c.toml",
                         kHead + kByte +
                             "stages = [{type = \"clean\"}, {type = \"length\", tokens = 6},\n"
                             "  {type = \"near_duplicates\"}]\n"));
  EXPECT_THAT(documents_in(folder.at("out")), ElementsAre(alike + " 1", "quite another long text"));
  ASSERT_EQ(made.stages.size(), 3U);
  const StageCounts &clean = made.stages[0].counts, &length = made.stages[1].counts,
                    &alikes = made.stages[2].counts;
  EXPECT_EQ(clean.in.documents, 4);
  EXPECT_EQ(clean.in.tokens, 51 + 5 + 51 + 23);
  EXPECT_EQ(clean.changed, 1);
  EXPECT_EQ(clean.out.tokens, 51 + 5 + 50 + 23);
  EXPECT_EQ(length.removed, 1);
  EXPECT_EQ(length.out.characters, 51 + 50 + 23);
  EXPECT_EQ(alikes.in.documents, 3);
  EXPECT_EQ(alikes.removed, 1);
  EXPECT_EQ(alikes.out.tokens, 51 + 23);
  EXPECT_EQ(
      folder.read("out.removed.jsonl"),
      "{\"id\":\"a.jsonl:2\",\"stage\":\"length\",\"reason\":\"5 tokens, fewer than 6\"}\n"
      "{\"id\":\"a.jsonl:3\",\"stage\":\"near_duplicates\",\"reason\":\"like another document\""
      ",\"twin\":\"first\",\"similarity\":0.9375}\n");
  EXPECT_THAT(folder.read("out.report.json"),
              HasSubstr(R"({"type":"near_duplicates","in":{"documents":3,"characters":124,"tokens")"
                        R"(:124},"out":{"documents":2,"characters":74,"tokens":74},"changed":0,)"
                        R"("removed":1})"));
}

// Tokens of each sequence, by documents.
std::vector<std::vector<i64>> sequences_in(const std::string& prefix) {
  const TokenFile file(prefix, "test");
  const TokenIndex& index = file.index();
  std::vector<std::vector<i64>> out;
  for (i64 i = 0; i < index.documents(); ++i) {
    out.emplace_back();
    for (i64 k = index.first_sequence(i); k < index.first_sequence(i + 1); ++k) {
      out.back().push_back(index.length(k));
    }
  }
  return out;
}

TEST(Build, SentencesAreSequencesOfTheirDocument) {
  const TestFolder folder;
  folder.write("a.jsonl",
               "{\"text\":\"One. Three!\"}\n{\"text\":\"\"}\n{\"text\":\"alone\"}\n"
               "{\"text\":\"Aa. B? Ccc\"}\n");
  const std::string stages = "stages = [{type = \"length\", tokens = 1}, {type = \"sentences\"}]\n";
  const BuildSummary made = build(folder.write("c.toml", kHead + kByte + stages));
  EXPECT_EQ(made.documents, 3);
  EXPECT_EQ(made.tokens, 10 + 5 + 8);
  EXPECT_THAT(sequences_in(folder.at("out")),
              ElementsAre(ElementsAre(4, 6), ElementsAre(5), ElementsAre(3, 2, 3)));
  EXPECT_THAT(documents_in(folder.at("out")), ElementsAre("One.Three!", "alone", "Aa.B?Ccc"));
  ASSERT_EQ(made.stages.size(), 2U);
  EXPECT_EQ(made.stages[1].counts.changed, 2);
  EXPECT_EQ(made.stages[1].counts.out.documents, 3);
  EXPECT_EQ(made.stages[1].counts.out.tokens, 23);
  // After a stage that compares, too.
  build(
      folder.write("d.toml",
                   "schema = 1\ninput = [\"a.jsonl\"]\noutput = \"q\"\n" + kByte +
                       "stages = [{type = \"length\", tokens = 1}, {type = \"near_duplicates\"},\n"
                       "  {type = \"sentences\"}]\n"));
  EXPECT_EQ(bytes_of(folder.at("q.idx")), bytes_of(folder.at("out.idx")));
  EXPECT_EQ(bytes_of(folder.at("q.bin")), bytes_of(folder.at("out.bin")));
  // Documents move and are divided among files as wholes.
  const BuildSummary parts = build(folder.at("c.toml"),
                                   {"input=[\"" + folder.at("a.jsonl") + "\"]",
                                    "output=" + folder.at("p"),
                                    "shards=3",
                                    "shuffle_seed=3"});
  std::vector<std::vector<i64>> all;
  for (const std::string& prefix : parts.prefixes) {
    for (auto& document : sequences_in(prefix)) all.push_back(std::move(document));
  }
  EXPECT_THAT(
      all,
      ::testing::UnorderedElementsAre(ElementsAre(4, 6), ElementsAre(5), ElementsAre(3, 2, 3)));
}

// As Megatron-LM's preprocessing with --append-eod: once a document, in its last sentence.
TEST(Build, TheEndOfADocumentIsInItsLastSentence) {
  const TestFolder folder;
  folder.write("tokenizer.json",
               R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
                   "normalizer": null, "pre_tokenizer": null, "post_processor": null,
                   "decoder": null, "model": {"type": "BPE", "merges": [],
                   "vocab": {"a": 0, "A": 1, ".": 2, " ": 3, "#": 4}}})");
  folder.write("tokenizer_config.json", R"({"eos_token": "#"})");
  // Its third sentence has no token.
  folder.write("a.jsonl",
               R"({"text":"aa. A a\n\nx\n\na"})"
               "\n");
  const std::string file =
      folder.write("c.toml",
                   kHead + "tokenizer = {type = \"huggingface\", path = \"tokenizer.json\"}\n" +
                       "stages = [{type = \"sentences\"}]\n");
  EXPECT_EQ(build(file).tokens, 8);
  EXPECT_THAT(sequences_in(folder.at("out")), ElementsAre(ElementsAre(3, 3, 2)));
  EXPECT_EQ(build(file, {"eod=false"}, true).tokens, 7);
  EXPECT_THAT(sequences_in(folder.at("out")), ElementsAre(ElementsAre(3, 3, 1)));
}

// The same bytes by one thread and by several; shards are the file in pieces.
TEST(Build, ThreadsAndShardsChangeNoByte) {
  const TestFolder folder;
  folder.write("a.jsonl", lines_of(0, 6'000) + lines_of(2'000, 2'500));
  folder.write("b.jsonl", lines_of(5'000, 8'000));
  const std::string file = folder.write(
      "c.toml", kHead + kByte + "stages = [{type = \"near_duplicates\"}, {type = \"length\"}]\n");
  build(file, {"threads=1", "output=" + folder.at("o/one")});
  build(file, {"threads=3", "output=" + folder.at("o/three")});
  const auto one = files_of(folder, "o/one");
  EXPECT_GT(one.at(".removed.jsonl").size(), 0U);
  EXPECT_TRUE(one == files_of(folder, "o/three"));
  EXPECT_THAT(one.at(".report.json"), HasSubstr("\"changed\":0,\"removed\":1500}"));

  for (const char* seed : {"\"none\"", "5"}) {
    const std::string order = std::string("shuffle_seed=") + seed;
    build(file, {"output=" + folder.at("o/whole"), order}, true);
    const BuildSummary made =
        build(file, {"output=" + folder.at("o/part"), "shards=3", order}, true);
    std::string data;
    std::vector<std::string> documents;
    ASSERT_EQ(made.prefixes.size(), 3U);
    for (const std::string& prefix : made.prefixes) {
      const std::string bytes = bytes_of(prefix + ".bin");
      EXPECT_NEAR(
          static_cast<double>(bytes.size()), static_cast<double>(made.tokens) * 2 / 3, 5000);
      data += bytes;
      for (std::string& one_of : stored_documents(prefix)) documents.push_back(std::move(one_of));
    }
    EXPECT_TRUE(data == bytes_of(folder.at("o/whole.bin")));
    EXPECT_TRUE(documents == stored_documents(folder.at("o/whole")));
    EXPECT_EQ(folder.read("o/whole.removed.jsonl"), folder.read("o/part.removed.jsonl"));
    EXPECT_EQ(data == bytes_of(folder.at("o/one.bin")), seed[0] == '"');
    std::ranges::sort(documents);
    std::vector<std::string> all = stored_documents(folder.at("o/one"));
    std::ranges::sort(all);
    EXPECT_TRUE(documents == all);
  }
}

// What is in OUTPUT.build is used where it is right, and made again where it is not.
TEST(Build, GoesOnAndTrustsNothing) {
  const TestFolder folder;
  folder.write("a.jsonl", lines_of(0, 6'000));
  const std::string file =
      folder.write("c.toml", kHead + kByte + "stages = [{type = \"near_duplicates\"}]\n");
  build(file, {"output=" + folder.at("o/right")});
  // A stage that fails leaves the chunks before it.
  folder.write("b.jsonl", "{\"text\":7}\n");
  EXPECT_THAT(error_of([&] { build(file); }), HasSubstr("b.jsonl:1: field"));
  std::filesystem::remove(folder.at("b.jsonl"));
  ASSERT_TRUE(std::filesystem::exists(folder.at("out.build/chunk-0-0")));
  const auto written = [&] {
    return std::filesystem::last_write_time(folder.at("out.build/chunk-0-1"));
  };
  const auto before = written();
  std::string damaged = folder.read("out.build/chunk-0-0");
  damaged[damaged.size() / 2] ^= 1;
  folder.write("out.build/chunk-0-0", damaged);
  folder.write("b.jsonl", "{\"text\":7}\n");
  EXPECT_THAT(error_of([&] { build(file); }), HasSubstr("b.jsonl:1: field"));
  EXPECT_NE(folder.read("out.build/chunk-0-0"), damaged);
  EXPECT_EQ(written(), before);
  // Another key of a stage makes them anew.
  EXPECT_THAT(error_of([&] { build(file, {"stages.1.similarity=0.8"}); }), HasSubstr("b.jsonl:1"));
  EXPECT_NE(written(), before);
  std::filesystem::remove(folder.at("b.jsonl"));
  build(file);
  EXPECT_TRUE(files_of(folder, "o/right") == files_of(folder, "out"));
}

std::string problem(const std::string& text) {
  const TestFolder folder;
  folder.write("a.jsonl", "{\"text\":\"a\"}\n");
  std::string error = error_of<ConfigError>([&] { build(folder.write("c.toml", text)); });
  for (auto at = error.find(folder.path()); at != error.npos; at = error.find(folder.path())) {
    error.erase(at, folder.path().string().size() + 1);
  }
  return error;
}

TEST(Build, KeysAreCheckedWithTheirLines) {
  EXPECT_EQ(problem(kByte + "inputs = [\"a\"]\n"),
            "input is missing: files of documents, with * and ?: .jsonl, .ndjson, .json with an "
            "object a line; .txt with one document; each also as .gz and .zst; expected array of "
            "path\n"
            "output is missing: prefix of the files that are written; expected path\n"
            "c.toml:2:1: unknown key \"inputs\": did you mean \"input\"?\n"
            "    2 | inputs = [\"a\"]\n"
            "      | ^^^^^^");
  EXPECT_EQ(problem(kHead), "tokenizer needs type = the name of a tokenizer");
  EXPECT_THAT(problem(kHead + "tokenizer = {type = \"bite\"}\n"),
              HasSubstr("c.toml:4:21: [tokenizer] type = \"bite\": no tokenizer of that name; did "
                        "you mean \"byte\"?; known are byte"));
  EXPECT_THAT(problem(kHead + kByte + "shards = 0\n"),
              HasSubstr("c.toml:5:10: shards: expected integer"));
  EXPECT_THAT(problem(kHead + kByte + "stages = [{type = \"length\", tokes = 3}]\n"),
              HasSubstr("c.toml:5:29: [stages.1] unknown key \"tokes\": did you mean \"tokens\"?"));
  EXPECT_THAT(problem(kHead + kByte + "stages = [\"clean\"]\n"),
              HasSubstr("stages is a list of tables: stages = [{type = \"clean\"}]"));
  EXPECT_THAT(problem(kHead + kByte + "[stages.first]\ntype = \"clean\"\n"),
              HasSubstr("stages is a list of tables"));
  EXPECT_THAT(problem(kHead + kByte + "stages = [{type = \"overlap\"}]\n"),
              HasSubstr("c.toml:5:11: [stages.1] files is missing: what the model will be"));
  EXPECT_EQ(problem(kHead + kByte + "eod = true\n"),
            "eod = true: the tokenizer has no token that ends a document");
  EXPECT_EQ(problem(kHead + kByte + "shards = 2\n"), "shards = 2: there are 1 documents");
  EXPECT_EQ(problem(kHead + kByte + "stages = [{type = \"length\"}]\n"),
            "the stages leave no document: out would be empty");
  EXPECT_EQ(
      problem(kHead + kByte + "stages = [{type = \"sentences\"}, {type = \"length\"}]\n"),
      "stages.1: stage \"sentences\" cuts documents into sequences: it has to be the last one, "
      "after \"length\"");
  EXPECT_EQ(problem("input = [\"*.json\"]\noutput = \"out\"\n" + kByte),
            "input: there is no file *.json");
}

TEST(Build, EmptyInputIsAnError) {
  const TestFolder folder;
  folder.write("a.jsonl", "\n \n");
  EXPECT_EQ(error_of<ConfigError>([&] { build(folder.write("c.toml", kHead + kByte)); }),
            "input: there is no document in it");
}

}  // namespace build_test
}  // namespace tessera
