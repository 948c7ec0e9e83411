// What stays, what goes, and why.
#include <cstdio>
#include <exception>
#include <tessera/document_stage.hpp>
#include <tessera/error.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

bool failed(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not so: %s\n", what);
  return !holds;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  DocumentStageArguments arguments;
  const auto half = world.make<DocumentStage>("lettered", arguments, {{"share", 0.5}});
  const auto removed = [&](std::string_view text) {
    const StageResult result = half->apply({"id", text, 1});
    failed(result.texts.empty(), "texts stay as they are");
    return result.removed;
  };
  bool wrong = failed(removed("ab 12").empty(), "half of them is enough");
  wrong |= failed(removed("a 12") == "1 letters of 3 characters", "less is not");
  wrong |= failed(removed("\xC3\xA9 1").empty(), "a letter of two bytes counts once");
  wrong |= failed(removed(" \n").empty(), "nothing but space is no table");
  wrong |= failed(half->comparison() == nullptr, "each document is decided alone");
  const auto all = world.make<DocumentStage>("lettered", arguments, {{"share", 1}});
  wrong |= failed(all->apply({"id", "ab.", 1}).removed != "", "a full stop is no letter");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
