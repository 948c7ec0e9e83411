#include "device_check.hpp"

#include <thread>
#include <utility>

#include "device/bench.hpp"

namespace tessera::testing {

DeviceBench::DeviceBench(const MakeDevice& make_device, std::string part, std::string& problems)
    : make_device_(make_device),
      part_(std::move(part)),
      problems_(problems),
      device_(make_device({})),
      fill_(*device_),
      add_(*device_) {}

void DeviceBench::note(const std::string& problem) {
  problems_ += fmt::format("{}: {}\n", part_, problem);
}

void DeviceBench::expect_error(std::string_view what,
                               std::string_view mention,
                               const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    expect(std::string_view(error.what()).find(mention) != std::string_view::npos,
           "the error of {} does not mention \"{}\": {}",
           what,
           mention,
           error.what());
    return;
  }
  note(fmt::format("{} is no error", what));
}

std::vector<Stream*> DeviceBench::streams() {
  std::vector<Stream*> all = {&compute()};
  for (int lane = 0; lane < kCommLanes; ++lane) {
    all.push_back(&device_->comm_stream(static_cast<CommLane>(lane)));
  }
  return all;
}

Tensor DeviceBench::floats(Stream& stream, const Shape& shape, DType dtype) {
  return Tensor::allocate(*device_, device_->pool(), stream, shape, dtype, Category::activations);
}

void DeviceBench::fill(Stream& stream, const Tensor& out, double value) {
  FillArgs args;
  args.out = out.arg();
  args.value = value;
  fill_.launch(stream, device_->pool(), args);
}

void DeviceBench::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  AddArgs args;
  args.a = a.arg();
  args.b = b.arg();
  args.out = out.arg();
  add_.launch(stream, device_->pool(), args);
}

std::vector<float> DeviceBench::read(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  device_->read(tensor, values.data());
  return values;
}

void DeviceBench::expect_values(std::string_view what, const Tensor& tensor, float value) {
  expect_values(what, read(tensor), value);
}

void DeviceBench::expect_values(std::string_view what, std::span<const float> values, float value) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == value) continue;
    note(fmt::format("{}: element {} is {}, not {}", what, i, values[i], value));
    return;
  }
}

DeviceBench::Slow DeviceBench::slow(Stream& stream,
                                    std::chrono::milliseconds duration,
                                    Timing timing) {
  Slow made;
  device_->launch_host(stream, "a slow task", [done = made.done, duration] {
    std::this_thread::sleep_for(duration);
    *done = true;
  });
  made.end = device_->record(stream, timing);
  return made;
}

std::string device_check(const MakeDevice& make_device, std::string_view part) {
  struct Part {
    std::string_view name;
    void (*run)(DeviceBench& bench);
  };
  constexpr Part kParts[] = {{"streams", check_streams},
                             {"events", check_events},
                             {"waits", check_waits},
                             {"times", check_times},
                             {"host calls", check_counts},
                             {"memory", check_memory},
                             {"lifetimes", check_lifetimes},
                             {"host blocks", check_host_blocks},
                             {"copies", check_copies},
                             {"capture", check_capture},
                             {"refusals", check_refusals},
                             {"replay", check_replay},
                             {"errors", check_errors},
                             {"kinds of memory", check_kinds}};
  std::string problems;
  bool found = false;
  for (const Part& each : kParts) {
    if (!part.empty() && part != each.name) continue;
    found = true;
    try {
      DeviceBench bench(make_device, std::string(each.name), problems);
      each.run(bench);
    } catch (const std::exception& error) {
      problems += fmt::format("{}: ended with an error: {}\n", each.name, error.what());
    }
  }
  require(found, "device_check has no part \"{}\"", part);
  return problems;
}

}  // namespace tessera::testing
