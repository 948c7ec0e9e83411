#include "gradient_check.hpp"

#include <algorithm>
#include <cmath>

#include "operand.hpp"
#include "tessera/error.hpp"
#include "tessera/tape.hpp"
#include "workbench.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

/// What gradients of parameters start from, so that one that overwrites is found out.
constexpr double kStart = 0.5;

/// Whatever is thrown meanwhile, the caller's tape comes back.
class OtherTape {
 public:
  OtherTape(Context& cx, Tape* tape) : cx_(cx), before_(std::exchange(cx.tape, tape)) {}
  ~OtherTape() { cx_.tape = before_; }
  OtherTape(const OtherTape&) = delete;
  OtherTape& operator=(const OtherTape&) = delete;

 private:
  Context& cx_;
  Tape* before_;
};

class GradientCheck {
 public:
  GradientCheck(Context& cx,
                const TensorFunction& function,
                const std::vector<Tensor>& inputs,
                std::span<Parameter* const> parameters,
                const GradientOptions& options)
      : cx_(cx), function_(function), inputs_(inputs), parameters_(parameters), options_(options) {}

  std::string run() {
    for (const Tensor& input : inputs_) expect_double(input);
    for (const Parameter* parameter : parameters_) expect_double(parameter->compute);
    const std::vector<Values> before = values_now();
    choose_weights();
    const std::vector<Values> at_once = gradients(false), apart = gradients(true);
    for (std::size_t i = 0; i < at_once.size(); ++i) {
      if (at_once[i] != apart[i]) {
        wrong_ += fmt::format("{}: the halves run apart give other bits than both\n", name(i));
      }
    }
    if (values_now() != before) wrong_ += "the function wrote an input or a parameter\n";
    for (std::size_t i = 0; i < at_once.size(); ++i) compare(i, at_once[i]);
    return wrong_;
  }

 private:
  static void expect_double(const Tensor& tensor) {
    require(tensor.dtype() == DType::fp64 && tensor.dense(),
            "gradient_check works on dense fp64, not on {}",
            tensor);
  }

  std::string name(std::size_t i) const {
    if (i < inputs_.size()) return fmt::format("gradient of input {}", i);
    return fmt::format("gradient of \"{}\"", parameters_[i - inputs_.size()]->name);
  }
  const Tensor& variable(std::size_t i) const {
    return i < inputs_.size() ? inputs_[i] : parameters_[i - inputs_.size()]->compute;
  }
  std::vector<Values> values_now() const {
    std::vector<Values> all;
    for (std::size_t i = 0; i < inputs_.size() + parameters_.size(); ++i) {
      all.push_back(read(variable(i)));
    }
    return all;
  }

  std::vector<Values> results() {
    const OtherTape none(cx_, nullptr);
    std::vector<Values> values;
    for (const Tensor& result : function_(cx_, inputs_)) values.push_back(read(result));
    return values;
  }

  void choose_weights() {
    u64 seed = options_.seed << 32;
    for (const Values& result : results()) {
      weights_.push_back(
          Operand::random({static_cast<i64>(result.size())}, DType::fp64, ++seed).values);
    }
  }

  std::vector<Values> gradients(bool apart) {
    for (Parameter* parameter : parameters_) {
      write(parameter->grad, Values(static_cast<std::size_t>(parameter->grad.elements()), kStart));
    }
    Tape tape;
    const OtherTape recording(cx_, &tape);
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs_) leaves.push_back(input.with_var(kNeedsGradient));
    const Tape::FrameId frame = tape.begin(leaves);
    std::vector<Tensor> outputs = function_(cx_, leaves);
    tape.end(outputs);
    std::vector<Tape::Gradient> found;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      found.push_back({cx_.empty(outputs[i].shape(), DType::fp64)});
      write(found.back().tensor, weights_[i]);
    }
    outputs.clear();
    leaves.clear();
    tape.backward(cx_, frame, apart ? Half::input : Half::both, found);
    if (apart) tape.backward(cx_, frame, Half::weight, found);

    std::vector<Values> all;
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].pending.wait(*cx_.stream);
      all.push_back(found[i].tensor.defined()
                        ? read(found[i].tensor)
                        : Values(static_cast<std::size_t>(inputs_[i].elements())));
    }
    for (const Parameter* parameter : parameters_) {
      all.push_back(read(parameter->grad));
      for (double& value : all.back()) value -= kStart;
    }
    return all;
  }

  double difference_quotient(const Tensor& tensor, Values& values, std::size_t element) {
    const double value = values[element];
    const auto at = [&](double x) {
      values[element] = x;
      write(tensor, values);
      return results();
    };
    const double low = value - options_.step, high = value + options_.step;
    const std::vector<Values> above = at(high), below = at(low);
    values[element] = value;
    write(tensor, values);
    double sum = 0;
    for (std::size_t r = 0; r < above.size(); ++r) {
      for (std::size_t k = 0; k < above[r].size(); ++k) {
        sum += weights_[r][k] * (above[r][k] - below[r][k]);
      }
    }
    return sum / (high - low);
  }

  void compare(std::size_t i, const Values& gradient) {
    Values values = read(variable(i));
    double largest = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    const double bound = options_.relative * largest + options_.absolute;
    const auto count = static_cast<i64>(values.size());
    const i64 probes = std::min(count, options_.probes);
    for (i64 probe = 0; probe < probes; ++probe) {
      const auto element = static_cast<std::size_t>(probe * count / probes);
      const double expected = difference_quotient(variable(i), values, element);
      if (std::abs(gradient[element] - expected) <= bound) continue;
      wrong_ += fmt::format("{}: element {} is {}, by differences {} (tolerance {:.3g})\n",
                            name(i),
                            element,
                            gradient[element],
                            expected,
                            bound);
      return;
    }
  }

  Context& cx_;
  const TensorFunction& function_;
  const std::vector<Tensor>& inputs_;
  std::span<Parameter* const> parameters_;
  const GradientOptions& options_;
  std::vector<Values> weights_;  // of each result
  std::string wrong_;
};

}  // namespace

std::string gradient_check(Context& cx,
                           const TensorFunction& function,
                           const std::vector<Tensor>& inputs,
                           std::span<Parameter* const> parameters,
                           const GradientOptions& options) {
  return GradientCheck(cx, function, inputs, parameters, options).run();
}

}  // namespace tessera::testing
