#include "kernels.hpp"
#include "simd/kernels_of_isa.hpp"

#define TESSERA_TEXT(x) TESSERA_TEXT_(x)
#define TESSERA_TEXT_(x) #x

namespace tessera::cpu::TESSERA_ISA {
namespace {

template <class... P, class... W>
constexpr Kernels table(OperationList<P...>, OperationList<W...>) {
  return {{&run<P>}..., {&workspace_bytes<W>, &run<W>}..., TESSERA_TEXT(TESSERA_ISA)};
}

}  // namespace

extern constinit const Kernels kKernels = table(Plain{}, WithWorkspace{});

}  // namespace tessera::cpu::TESSERA_ISA
