#pragma once
#include <concepts>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "tessera/base/operation_rules.hpp"

namespace tessera {

namespace detail {
template <class Args>
concept PlainData = std::is_trivially_copyable_v<Args> && std::is_standard_layout_v<Args>;
template <class Args>
concept NamesOperation = requires {
  { Args::kName } -> std::convertible_to<std::string_view>;
};
template <class Args>
concept CountsTensors = requires {
  { Args::kTensors } -> std::convertible_to<int>;
  { Args::kOutputs } -> std::convertible_to<int>;
};
template <class Args>
concept Infers = requires(Args& args) {
  Args::infer(args);
};
}  // namespace detail

/// The arguments of an operation are a standard-layout, trivially copyable struct that begins with
/// its tensors, inputs first, outputs last, followed by constants:
///
///     struct AxpyArgs {
///       static constexpr std::string_view kName = "axpy";
///       static constexpr int kTensors = 3, kOutputs = 1;
///       TensorArg x, y, out;
///       double a = 1;
///       static void infer(AxpyArgs& args);  // sets out's shape and dtype, throws on a mismatch
///     };
///
/// It may also say which dtypes its tensors have (`static constexpr TensorRule kRules[]`), which
/// every launch is then checked by, and the work of a launch (`static Effort effort(const
/// AxpyArgs&)`; without it: no FLOPs, each tensor moved once).
///
/// The operation's identity is its name, never its type: a template static has one address per
/// library.
template <class Args>
concept OperationArgs = detail::PlainData<Args> && detail::NamesOperation<Args> &&
    detail::CountsTensors<Args> && detail::Infers<Args>;

namespace detail {

template <class Args>
constexpr bool kHoldsTensors = Args::kTensors >= 0 &&
                               sizeof(Args) >= Args::kTensors * sizeof(TensorArg);
template <class Args>
constexpr bool kOutputsAreTensors = Args::kOutputs >= 0 && Args::kOutputs <= Args::kTensors;

/// Whether a struct can be an operation's arguments. If not, the compiler's only error is the
/// sentence of the first mistake, as long as whoever calls it uses no member where it says no.
template <class Args>
constexpr bool check_operation() {
  if constexpr (!PlainData<Args>) {
    static_assert(PlainData<Args>,
                  "an operation's arguments must be a standard-layout, trivially copyable struct: "
                  "TensorArgs and numbers, without virtual functions, strings or vectors");
  } else if constexpr (!NamesOperation<Args>) {
    static_assert(NamesOperation<Args>,
                  "an operation's arguments need `static constexpr std::string_view kName`");
  } else if constexpr (!CountsTensors<Args>) {
    static_assert(CountsTensors<Args>,
                  "an operation's arguments need `static constexpr int kTensors, kOutputs`");
  } else if constexpr (!Infers<Args>) {
    static_assert(Infers<Args>,
                  "an operation's arguments need a public `static void infer(Args& args)`");
  } else if constexpr (!kHoldsTensors<Args>) {
    static_assert(kHoldsTensors<Args>, "kTensors: more tensors than the arguments begin with");
  } else if constexpr (!kOutputsAreTensors<Args>) {
    static_assert(kOutputsAreTensors<Args>,
                  "kOutputs: the last of the tensors, so not more than kTensors");
  } else if constexpr (requires { Args::kRules; }) {
    static_assert(std::size(Args::kRules) == Args::kTensors, "kRules: one rule for each tensor");
    return true;
  } else {
    return true;
  }
  return false;
}

/// Its name, where it has one.
template <class Args>
constexpr std::string_view operation_name() {
  if constexpr (check_operation<Args>()) return Args::kName;
  return {};
}

}  // namespace detail

}  // namespace tessera
