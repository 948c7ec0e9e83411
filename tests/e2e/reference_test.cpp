// configs/REFERENCE.md and the flags of configs/MEGATRON.md are what the program prints.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "program_support.hpp"

namespace tessera {
namespace reference_test {

using ::testing::HasSubstr;
using testing::run_tessera;

std::string committed(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(TESSERA_SOURCE_DIR "/configs/" + name).rdbuf();
  return text.str();
}

std::string keys(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"config", "keys"});
  const ProcessResult result = run_tessera(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// The page without the part of the device `cuda`, which a build without nvcc does not have.
std::string without_cuda(std::string page) {
  const std::size_t begin = page.find("### [device] type = \"cuda\"");
  if (begin != std::string::npos) page.erase(begin, page.find("### ", begin + 1) - begin);
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
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += fmt::format("word {} ", i);
  std::filesystem::create_directory(folder.path() / "texts");
  folder.write("texts/a.txt", words);
  // Without the files of its tokenizer.
  const ProcessResult checked =
      run_tessera({"config", "check", file, "--set", "tokenizer.type=byte"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("no problem found"));
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

// What the part by hand calls a key, as `lr.type = "cosine"`, is one.
TEST(Reference, KeysInTheMapOfConceptsAreThere) {
  const std::string page = committed("MEGATRON.md"), all = keys({"--markdown"});
  const std::regex key("`([a-z]+(\\.[a-z_]+)+)( = [^`]*)?`");
  const std::string map = page.substr(0, page.find("## Flags\n"));
  int seen = 0;
  for (std::sregex_iterator at(map.begin(), map.end(), key), end; at != end; ++at) {
    const std::string path = (*at)[1], last = path.substr(path.rfind('.') + 1);
    if (last == "jsonl" || last == "html") continue;  // files
    const std::string table = path.substr(0, path.rfind('.'));
    EXPECT_THAT(all, HasSubstr("[" + table + "]")) << path;
    EXPECT_THAT(all, HasSubstr("| `" + last + "` |")) << path;
    ++seen;
  }
  EXPECT_GT(seen, 15);
}

TEST(Reference, KeysOfASectionAndOfWhatIsInIt) {
  const std::string lr = keys({"lr"});
  EXPECT_THAT(lr, HasSubstr("[lr] type = \"cosine\""));
  EXPECT_THAT(lr, HasSubstr("(Megatron: --lr)"));
  EXPECT_THAT(keys({"model.block.mlp"}), HasSubstr("[model.block.mlp] type = \"mlp\""));
  // The same keys as of the component by itself.
  const ProcessResult show = run_tessera({"plugins", "show", "rule/adamw"});
  EXPECT_THAT(keys({"optimizer.rule"}), HasSubstr(show.out.substr(show.out.find('\n') + 1)));
  const ProcessResult unknown = run_tessera({"config", "keys", "lrr"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("there is no table [lrr]; did you mean [lr]?"));
  EXPECT_THAT(keys({"optimizer.groups"}), HasSubstr("groups.NAME.match"));
  EXPECT_THAT(keys({"model.blocks.dense"}), HasSubstr("\n[model.block.mlp] type = "));
  EXPECT_THAT(keys({"observers.mine"}), HasSubstr("NAME.type"));
}

}  // namespace reference_test
}  // namespace tessera
