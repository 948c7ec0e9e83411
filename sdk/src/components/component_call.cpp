#include "sdk/src/shared/component_call.hpp"

#include <fmt/format.h>

#include "tessera/error.hpp"
#include "tessera/layer.hpp"

namespace tessera {
namespace {

std::string_view text_of(const Identity* of) {
  return of == nullptr || of->plugin.empty() ? std::string_view() : of->text;
}

}  // namespace

Identified::~Identified() = default;

ComponentCall::ComponentCall(const Identity* of, std::string_view what) noexcept
    : of_(of),
      what_(what),
      doing_(text_of(of), what, of),
      guard_(FloatingPointGuard::During::call,
             of == nullptr ? "a component" : std::string_view(of->text),
             what,
             of == nullptr ? nullptr : &of->told) {}

void ComponentCall::rethrow() const {
  if (of_ == nullptr) throw;
  using Kind = ErrorFrame::Kind;
  // A copy is thrown: type and text of a foreign exception live in the plugin.
  Error error = error_in_flight();
  if (blames_peer(error.kind())) throw;  // this rank only waited
  // Whoever runs a phase knows the layer that it belongs to, which may be one further in.
  const bool chosen = of_->kind != Layer::kKind && !error.has(Kind::choice);
  const bool named = of_->plugin.empty() || error.has(Kind::component) || error.has(Kind::place);
  if (!chosen && named) throw;
  if (chosen) error.add(Kind::choice, of_->choice);
  if (!named) {
    error.add(Kind::component,
              fmt::format("{}/{} ({}) of plugin {} ({}), configured {}",
                          of_->kind,
                          of_->name,
                          what_,
                          of_->plugin,
                          of_->library,
                          of_->place));
  }
  error.raise();
}

}  // namespace tessera
