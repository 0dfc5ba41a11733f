// lockstep/core/config.h
//
// A Config is a TOML document with settings from the command line laid over it.
// Whoever reads a key names it with its default; finish() then fails on any key
// that nobody asked for, proposing the nearest that somebody did. Keys are dotted
// paths: "optimizer.lr".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Config {
 public:
  Config();
  static Config from_file(const std::string& path);
  /// `source` names the text in errors.
  static Config from_text(const std::string& text, const std::string& source = "recipe");
  ~Config();
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;

  /// Lays "key=value" over the document. The value is TOML; a bare word is a string. Replaces the
  /// key's value whole, but never a table by a plain value, nor a plain value by a table.
  void set(const std::string& assignment);

  /// The value at `key`, or `fallback`; an Error naming file, line, key and both types if it is of another type.
  std::string get(const std::string& key, const std::string& fallback) const;
  std::string get(const std::string& key, const char* fallback) const { return get(key, std::string(fallback)); }
  std::int64_t get(const std::string& key, std::int64_t fallback) const;
  std::int64_t get(const std::string& key, int fallback) const { return get(key, std::int64_t{fallback}); }
  double get(const std::string& key, double fallback) const;
  bool get(const std::string& key, bool fallback) const;
  std::vector<std::string> get(const std::string& key, const std::vector<std::string>& fallback) const;
  std::vector<std::int64_t> get(const std::string& key, const std::vector<std::int64_t>& fallback) const;
  std::vector<double> get(const std::string& key, const std::vector<double>& fallback) const;
  bool has(const std::string& key) const;
  /// Whether the value at `key` is text, where it may be another type, too.
  bool holds_text(const std::string& key) const;
  /// A table of texts whose names may be any: { "*.bias" = "row" }.
  std::map<std::string, std::string> texts(const std::string& key) const;
  /// Keys directly under the table `key` ("" is the root).
  std::vector<std::string> keys(const std::string& key) const;

  /// Fails with Fault::Usage if the document holds a key that no get() or has() named.
  void finish() const;

  /// The document with its overrides, as TOML and as JSON.
  std::string toml() const;
  std::string json() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
