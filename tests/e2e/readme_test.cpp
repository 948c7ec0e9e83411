// A page works as written: its files are written, its commands run, its output is compared.
//   ```sh     is run, all in one shell
//   ```text   what the shell's output so far must hold, line by line; … stands for anything
//   others    a file, named in its first line: // wsd.cpp
//             or, after "of", lines that a file has when all has run: // of gated/gated.cpp
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "program_support.hpp"

namespace tessera {
namespace readme_test {

using testing::TestFolder;

struct Block {
  std::string language;
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Block> blocks;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      if (!inside) blocks.push_back({line.substr(3), {}});
      inside = !inside;
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
  }
  return blocks;
}

std::string text_of(const Block& block) {
  std::string text;
  for (const std::string& line : block.lines) text += line + "\n";
  return text;
}

bool is_excerpt(const Block& block) {
  return !block.lines.empty() && block.lines[0].starts_with("// of ");
}

std::string name_in(const Block& block) {
  const std::string& first = block.lines.at(0);
  return first.substr(first.rfind(' ') + 1);
}

// The parts of an excerpt, between lines of "// …", must be in the file as they stand.
void expect_in_file(const Block& excerpt, const std::string& folder) {
  std::ifstream in(folder + "/" + name_in(excerpt));
  const std::string file(std::istreambuf_iterator<char>(in), {});
  std::string part;
  const auto check = [&] {
    EXPECT_GT(part.size(), 0U);
    EXPECT_NE(file.find(part), std::string::npos) << name_in(excerpt) << " does not have\n" << part;
    part.clear();
  };
  for (std::size_t i = 1; i < excerpt.lines.size(); ++i) {
    if (excerpt.lines[i] == "// …") {
      check();
    } else {
      part += excerpt.lines[i] + "\n";
    }
  }
  check();
}

std::string script_of(const std::vector<Block>& blocks) {
  std::string script = "set -euo pipefail\n";
  for (const Block& block : blocks) {
    if (block.language == "sh") {
      script += text_of(block);
    } else if (block.language != "text" && !is_excerpt(block)) {
      script += "cat > " + name_in(block) + " <<'END_OF_FILE'\n" + text_of(block) + "END_OF_FILE\n";
    }
  }
  return script;
}

bool matches(const std::string& line, const std::string& pattern) {
  static const std::string kAnything = "…";
  std::size_t at = 0, from = 0;
  for (;;) {
    const std::size_t to = pattern.find(kAnything, from);
    const std::string piece = pattern.substr(from, to - from);
    const std::size_t found = line.find(piece, at);
    if (found == std::string::npos || (from == 0 && found != 0)) return false;
    at = found + piece.size();
    if (to == std::string::npos) return piece.empty() || line.ends_with(piece);
    from = to + kAnything.size();
  }
}

TEST(Readme, BlocksAreFound) {
  EXPECT_TRUE(matches("a 12 b", "a … b"));
  EXPECT_TRUE(matches("a 12 b", "a …"));
  EXPECT_FALSE(matches("a 12 b", "a … c"));
  EXPECT_FALSE(matches("x a 12 b", "a … b"));
  EXPECT_FALSE(matches("a 12 b", "a 12"));
}

// Runs the commands of a page in `folder`/checkout, after those of `before`.
void expect_works_as_written(const std::string& page,
                             const TestFolder& folder,
                             const std::string& before = "") {
  const std::vector<Block> blocks = blocks_of(TESSERA_SOURCE_DIR "/" + page);
  ASSERT_GE(blocks.size(), 4U);
  ProcessOptions options;
  options.folder = folder.path() / "checkout";
  std::filesystem::create_directory(options.folder);
  std::filesystem::create_symlink(TESSERA_BUILD_DIR, options.folder + "/build");
  std::filesystem::create_symlink(TESSERA_SOURCE_DIR "/configs", options.folder + "/configs");
  options.environment = testing::compiler_variables();
  options.environment["HOME"] = folder.path().string();
  const ProcessResult result =
      run_process({"bash", folder.write("readme.sh", before + script_of(blocks))}, options);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;

  for (const Block& block : blocks) {
    if (is_excerpt(block)) expect_in_file(block, options.folder);
  }
  std::vector<std::string> shown;
  std::istringstream all(result.out + result.err);
  for (std::string line; std::getline(all, line);) shown.push_back(line);
  for (const Block& block : blocks) {
    if (block.language != "text") continue;
    for (const std::string& wanted : block.lines) {
      bool found = false;
      for (const std::string& line : shown) found = found || matches(line, wanted);
      EXPECT_TRUE(found) << "no such line in the output: " << wanted << "\n"
                         << result.out << result.err;
    }
  }
}

TEST(Readme, PluginInTenMinutesWorksAsWritten) {
  const TestFolder folder;
  expect_works_as_written("sdk/README.md", folder);
}

TEST(Readme, FirstPageWorksAsWritten) {
  const TestFolder folder;
  expect_works_as_written("README.md", folder);
}

// Pages that want the program and nothing else.
class ReadmeOfCommands : public ::testing::TestWithParam<const char*> {};
TEST_P(ReadmeOfCommands, WorksAsWritten) {
  const TestFolder folder;
  expect_works_as_written(GetParam(), folder, "export PATH=$PWD/build/bin:$PATH\n");
}
INSTANTIATE_TEST_SUITE_P(Tutorials,
                         ReadmeOfCommands,
                         ::testing::Values("examples/own_text/README.md",
                                           "examples/reading_a_plan/README.md",
                                           "examples/when_a_run_dies/README.md"));

// The pictures of the first page are what the commands that stand there draw.
TEST(Readme, PicturesAreDrawnByTheProgram) {
  const TestFolder folder;
  const auto drawn = [&](std::vector<std::string> command, const std::string& name) {
    const std::string file = (folder.path() / name).string();
    command.insert(command.end(), {"--svg", file});
    const ProcessResult result = testing::run_tessera(std::move(command));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string committed = TESSERA_SOURCE_DIR "/examples/pictures/" + name;
    EXPECT_EQ(testing::read_file(committed), testing::read_file(file))
        << "draw " << committed << " anew";
  };
  drawn({"schedule", "zbv", "--ranks", "2", "--microbatches", "8"}, "zbv.svg");
  drawn({"ranks", "--world-size", "8", "--tp", "2", "--pp", "2"}, "ranks.svg");
}

TEST(Readme, LayerUnderEveryLayoutWorksAsWritten) {
  const TestFolder folder;
  expect_works_as_written("examples/plugin_layer/README.md",
                          folder,
                          "cmake --install build --prefix ~/tessera >/dev/null\n"
                          "export PATH=~/tessera/bin:$PATH\n");
}

}  // namespace readme_test
}  // namespace tessera
