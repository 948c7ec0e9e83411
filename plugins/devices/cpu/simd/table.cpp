#include "kernels.hpp"
#include "simd/kernels_of_isa.hpp"

#define TESSERA_TEXT(x) TESSERA_TEXT_(x)
#define TESSERA_TEXT_(x) #x

#if defined(TESSERA_BASE_ISA)
// The instruction set whose kernels do what tiles do not: tiles multiply bf16.
namespace tessera::cpu::TESSERA_BASE_ISA {

template <class Args>
void run(const Args& args);
template <class Args>
i64 workspace_bytes(const Args& args);
template <class Args>
void run(const Args& args, void* workspace);

}  // namespace tessera::cpu::TESSERA_BASE_ISA
#endif

namespace tessera::cpu::TESSERA_ISA {
namespace {

#if defined(TESSERA_BASE_ISA)

namespace base = TESSERA_BASE_ISA;

using OnTiles = OperationList<MatmulArgs,
                              LinearWeightArgs,
                              PackWeightArgs,
                              GroupedMatmulArgs,
                              GroupedWeightArgs,
                              AttentionArgs,
                              AttentionBackwardArgs>;

/// Whether the kernels of this instruction set take it.
template <class Args>
bool fits(const Args& args) {
  if constexpr (requires { args.q; }) {
    return args.q.dtype == DType::bf16 && args.q.shape[3] % 32 == 0;
  } else if constexpr (requires { args.a; }) {
    return args.a.dtype == DType::bf16;
  } else if constexpr (requires { args.packed; }) {
    return args.b.dtype == DType::bf16;
  } else {
    return args.grad.dtype == DType::bf16;
  }
}

template <class Args>
i64 bytes_of(const Args& args) {
  return fits(args) ? workspace_bytes(args) : base::workspace_bytes(args);
}
template <class Args>
void run_either(const Args& args, void* workspace) {
  fits(args) ? run(args, workspace) : base::run(args, workspace);
}

template <class Args>
constexpr WorkspaceKernel<Args> with_workspace() {
  if constexpr (OnTiles::contains<Args>) {
    return {&bytes_of<Args>, &run_either<Args>};
  } else {
    return {&base::workspace_bytes<Args>, &base::run<Args>};
  }
}
template <class Args>
constexpr PlainKernel<Args> plain() {
  return {&base::run<Args>};
}

#else

template <class Args>
constexpr WorkspaceKernel<Args> with_workspace() {
  return {&workspace_bytes<Args>, &run<Args>};
}
template <class Args>
constexpr PlainKernel<Args> plain() {
  return {&run<Args>};
}

#endif

template <class... P, class... W>
constexpr Kernels table(OperationList<P...>, OperationList<W...>) {
  return {plain<P>()..., with_workspace<W>()..., TESSERA_TEXT(TESSERA_ISA)};
}

}  // namespace

extern constinit const Kernels kKernels = table(Plain{}, WithWorkspace{});

}  // namespace tessera::cpu::TESSERA_ISA
