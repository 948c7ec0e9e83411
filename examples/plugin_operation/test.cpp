// The kernels of `cpu` against those of `reference`, gradients against differences, and the layer
// on two tensor ranks against one.
#include <cstdio>
#include <exception>
#include <tessera/testing/gradient_check.hpp>
#include <tessera/testing/layer_check.hpp>
#include <tessera/testing/op_check.hpp>
#include <tessera/testing/workbench.hpp>

#include "squared_relu.hpp"

namespace {

using namespace example;
using namespace tessera::testing;

// Sizes that no vector width divides, one element, none, and more than one thread's share.
std::string compare(Device& cpu, Device& reference) {
  std::string wrong;
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    for (const Shape& shape : {Shape{7, 13}, Shape{1}, Shape{0, 4}, Shape{300, 111}}) {
      const Operand x = Operand::random(shape, dtype, 1), grad = Operand::random(shape, dtype, 2);
      const OpOptions options{.any_threads = true};
      wrong += op_check(
          cpu, reference, op_case("forward", SquaredReluArgs{}, {x, Operand::result()}, options));
      wrong += op_check(
          cpu,
          reference,
          op_case("backward", SquaredReluBackwardArgs{}, {grad, x, Operand::result()}, options));
    }
  }
  return wrong;
}

std::string check_gradient(Device& device) {
  Workbench bench(device);
  const SquaredRelu activation(device);
  const auto function = [&](Context& cx, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{activation(cx, in[0])};
  };
  return gradient_check(bench.context(), function, {bench.random({5, 6}, DType::fp64, 3)});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  std::string wrong = layer_check(
      world, {.type = "squared_relu", .values = {{"model.hidden", 16}, {"layer.ffn", 32}}});
  LocalWorldOptions plain, fast;  // one rank on each of two devices
  plain.device = "reference";
  fast.device = "cpu";
  world.run(plain, [&](LocalRank& reference) {
    wrong += check_gradient(reference.device());
    world.run(fast, [&](LocalRank& cpu) { wrong += compare(cpu.device(), reference.device()); });
  });
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
