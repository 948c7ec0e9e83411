// configs/REFERENCE.md and the flags of configs/MEGATRON.md are what the program prints.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "program_support.hpp"

namespace tessera {
namespace reference_test {

using ::testing::HasSubstr;
using testing::run_tessera;

std::string committed(const std::string& name) {
  return testing::read_file(TESSERA_SOURCE_DIR "/configs/" + name);
}

std::string keys(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"config", "keys"});
  const ProcessResult result = run_tessera(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// The page without what a build without nvcc does not have: the device `cuda`, the communicator
// `nccl`.
std::string without_cuda(std::string page) {
  for (const char* part : {"### [device] type = \"cuda\"", "### [comm] type = \"nccl\""}) {
    const std::size_t begin = page.find(part);
    if (begin != std::string::npos) page.erase(begin, page.find("### ", begin + 1) - begin);
  }
  return page;
}

TEST(Reference, IsWhatTheProgramPrints) {
  const bool cuda = std::filesystem::exists(TESSERA_BUILD_DIR "/plugins/libtessera_cuda.so");
  const std::string page = committed("REFERENCE.md");
  EXPECT_EQ(cuda ? page : without_cuda(page), keys({"--markdown"}))
      << "a key has changed; write the page anew:\n"
         "  build/bin/tessera config keys --markdown > configs/REFERENCE.md";
}

TEST(Reference, MegatronsFlagsAreWhatTheProgramPrints) {
  const std::string page = committed("MEGATRON.md");
  const std::size_t flags = page.find("## Flags\n");
  ASSERT_NE(flags, std::string::npos);
  EXPECT_EQ(page.substr(flags), keys({"--megatron"}))
      << "a flag has changed; write the page's end anew:\n"
         "  sed -i '/^## Flags/,$d' configs/MEGATRON.md\n"
         "  build/bin/tessera config keys --megatron >> configs/MEGATRON.md";
}

TEST(Reference, TheRunOfThePageForMegatronsUsersIsOne) {
  const std::string page = committed("MEGATRON.md"), fence = "```toml\n";
  const std::size_t begin = page.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t from = begin + fence.size();
  const testing::TestFolder folder;
  const std::string file =
      folder.write("run.toml", page.substr(from, page.find("```", from) - from));
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    std::string words;
    for (int k = 0; k < 200; ++k) words += fmt::format("word {} ", 200 * i + k);
    lines += "{\"text\": \"" + words + "\"}\n";
  }
  folder.write("texts.jsonl", lines);
  const std::string build = folder.write("build.toml",
                                         "schema = 1\ninput = [\"texts.jsonl\"]\n"
                                         "output = \"my_text_document\"\n"
                                         "tokenizer = {type = \"byte\"}\n");
  EXPECT_EQ(run_tessera({"data", "build", build}).exit_code, 0);
  // Without the files of its tokenizer.
  EXPECT_THAT(run_tessera({"config", "check", file, "--set", "tokenizer.type=byte"}),
              Prints(0, "no problem found"));
}

TEST(Reference, EveryIntegerThatAUserWritesHasBounds) {
  const std::string page = keys({"--markdown"});
  EXPECT_THAT(testing::unbounded_integers(page), ::testing::IsEmpty())
      << "end each with .at_least and .at_most, by a bound of tessera/bounds.hpp";
  EXPECT_THAT(
      testing::unbounded_integers("## [run]\n"
                                  "| `a` | integer | 1 | x |  |\n"
                                  "| `b` | integer in [1, 8] \\| \"auto\" | 1 | x |  |\n"
                                  "### [run] type = \"y\"\n"
                                  "| `c` | array of integer >= 1 | 1 | x |  |\n"
                                  "| `d` | string | \"integer\" | integer |  |\n"),
      ::testing::ElementsAre("[run] a: integer", "[run] type = \"y\" c: array of integer >= 1"));
}

// Keys that `text` names as the pattern's first group are there.
void expect_keys(const std::string& text, const std::string& pattern, int least) {
  const std::string all = keys({"--markdown"});
  const std::regex key(pattern);
  int seen = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), key), end; at != end; ++at) {
    const std::string path = (*at)[1], last = path.substr(path.rfind('.') + 1);
    if (last == "jsonl" || last == "html") continue;  // files
    const std::string table = path.substr(0, path.rfind('.'));
    EXPECT_THAT(all, HasSubstr("[" + table + "]")) << path;
    EXPECT_THAT(all, HasSubstr("| `" + last + "` |")) << path;
    ++seen;
  }
  EXPECT_GT(seen, least);
}

// What the part by hand calls a key, as `lr.type = "cosine"`, is one.
TEST(Reference, KeysInTheMapOfConceptsAreThere) {
  const std::string page = committed("MEGATRON.md");
  expect_keys(page.substr(0, page.find("## Flags\n")), "`([a-z]+(\\.[a-z_]+)+)( = [^`]*)?`", 15);
}

// --- names of other programs ---

std::vector<std::string> hints() {
  std::vector<std::string> lines;
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/e2e/fixtures/hints.txt");
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What schemas and configs/names/other_programs.toml say together.
TEST(OtherNames, AreToldWordForWord) {
  constexpr std::size_t kAtOnce = 20;  // a check tells no more
  const std::vector<std::string> all = hints();
  EXPECT_GT(all.size(), 100u);
  const std::string who = "Megatron-LM's --";
  for (std::size_t first = 0; first < all.size(); first += kAtOnce) {
    std::vector<std::string> command{"config", "check"}, told;
    command.push_back(TESSERA_SOURCE_DIR "/configs/shakespeare.toml");
    for (std::size_t i = first; i < std::min(first + kAtOnce, all.size()); ++i) {
      const std::size_t begin = all[i].starts_with(who) ? who.size() : 0;
      const std::string name = all[i].substr(begin, all[i].find(' ', begin) - begin);
      command.insert(command.end(), {"--set", name + "=1"});
      told.push_back(fmt::format("unknown key \"{}\" before any section: {}\n", name, all[i]));
    }
    const ProcessResult checked = run_tessera(command);
    for (const std::string& text : told) EXPECT_THAT(checked.err, HasSubstr(text));
  }
}

TEST(OtherNames, KeysInHintsAreThere) {
  std::string text;
  for (const std::string& hint : hints()) text += hint + "\n";
  expect_keys(text, "[ (]([a-z]+(\\.[a-z0-9_]+)+)", 60);
}

// A name that a key has by itself would hide one of the file.
TEST(OtherNames, EachOfTheFileIsTold) {
  const std::string file = committed("names/other_programs.toml");
  const std::regex line("([a-z0-9_-]+) = [\"'](.*)[\"']\n");
  const std::vector<std::string> all = hints();
  int seen = 0;
  for (std::sregex_iterator at(file.begin(), file.end(), line), end; at != end; ++at, ++seen) {
    const std::string text = (*at)[1].str() + " " + (*at)[2].str();
    const auto tells = [&](const std::string& hint) { return hint.ends_with(text); };
    EXPECT_TRUE(std::ranges::any_of(all, tells)) << text;
  }
  EXPECT_GT(seen, 40);
}

// Each flag of the page's tables that are written by hand is in the one that is made from keys, or
// has a hint.
TEST(OtherNames, EachFlagOfThePageForMegatronsUsersHasAHint) {
  const std::string page = committed("MEGATRON.md");
  const std::size_t made = page.find("## Flags");
  const std::vector<std::string> all = hints();
  int found = 0;
  for (std::size_t at = page.find("`--"); at < made; at = page.find("`--", at + 1), ++found) {
    const std::size_t end = page.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at + 1);
    const std::string flag = page.substr(at + 1, end - at - 1);
    if (flag == "--set" || page.find("| `" + flag + "` |", made) != page.npos) continue;
    const auto tells = [&](const std::string& hint) {
      return hint.starts_with("Megatron-LM's " + flag + " ");
    };
    EXPECT_TRUE(std::ranges::any_of(all, tells)) << flag;
  }
  EXPECT_GT(found, 20);
}

TEST(Reference, KeysOfASectionAndOfWhatIsInIt) {
  const std::string lr = keys({"lr"});
  EXPECT_THAT(lr, HasSubstr("[lr] type = \"cosine\""));
  EXPECT_THAT(lr, HasSubstr("(Megatron: --lr)"));
  EXPECT_THAT(keys({"model.block.mlp"}), HasSubstr("[model.block.mlp] type = \"mlp\""));
  // The same keys as of the component by itself.
  const ProcessResult show = run_tessera({"plugins", "show", "rule/adamw"});
  EXPECT_THAT(keys({"optimizer.rule"}), HasSubstr(show.out.substr(show.out.find('\n') + 1)));
  EXPECT_THAT(run_tessera({"config", "keys", "lrr"}),
              Exits(2, "there is no table [lrr]; did you mean [lr]?"));
  EXPECT_THAT(keys({"optimizer.groups"}), HasSubstr("groups.NAME.match"));
  EXPECT_THAT(keys({"model.blocks.dense"}), HasSubstr("\n[model.block.mlp] type = "));
  EXPECT_THAT(keys({"observers.mine"}), HasSubstr("NAME.type"));
}

}  // namespace reference_test
}  // namespace tessera
