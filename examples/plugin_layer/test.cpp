// Cut over two tensor ranks, with and without sequence parallelism, the layer must give the results
// and gradients of one rank.
#include <cstdio>
#include <exception>
#include <tessera/testing/layer_check.hpp>

int main(int argc, char** argv) try {
  using namespace tessera::testing;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  const std::string wrong =
      layer_check(world, {.type = "geglu", .values = {{"model.hidden", 16}, {"layer.ffn", 32}}});
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
