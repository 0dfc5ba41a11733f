// lockstep/ml/row_layout.h
//
// Which fields of a data set become which columns of a table: numbers as they are, text
// as one column for each text that occurs, or as the number of the text among all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/ml/sweep.h"

namespace lockstep::ml {

/// What the user chose.
struct ColumnChoice {
  /// Empty: all but labels, targets, weights and those left out. Fields that are encoded are columns, named or not.
  std::vector<std::string> columns = {};
  std::vector<std::string> exclude = {};
  std::vector<std::string> targets = {};
  std::string weights = {};
  std::string type = {};                  // "float32" or "float64"; empty: float32 where all columns are, else float64
  std::vector<std::string> onehot = {};   // fields of which each value becomes a column, 1 where it stands and 0 else
  std::vector<std::string> ordinal = {};  // fields whose values are numbered in their order
  bool of_model = false;                  // columns are those that a model was fitted to: there is no choice
};

/// The values of fields that are encoded, as category_text.h writes them: the first one has number 0. Those of numbers
/// are sorted by value, texts by their bytes.
using Categories = std::map<std::string, std::vector<std::string>>;

/// What the column of a value of an encoded field is called: "city=Ulm".
std::string onehot_name(const std::string& field, const std::string& category);

/// Those of the fields that `choice` encodes, and of targets that are text, in this rank's samples [first, end) and
/// those of all others. A collective. Fault::Usage if a field has too many different ones.
Categories find_categories(comm::Communicator& group, const data::Dataset& dataset, std::int64_t first,
                           std::int64_t end, const ColumnChoice& choice, int threads,
                           SweepObserver* observer = nullptr);

class RowLayout {
 public:
  /// Fault::Usage if a field is missing or holds no numbers of one size and is not encoded, naming the first value that
  /// is none and the remedy.
  RowLayout(const data::Dataset& dataset, const ColumnChoice& choice, const Categories& categories = {});

  /// Of each column: that of its field, of a field of several values with their number, "image[17]", of one that is
  /// encoded with its value, "city=Ulm".
  const std::vector<std::string>& names() const noexcept { return names_; }
  std::int64_t columns() const noexcept { return static_cast<std::int64_t>(names_.size()); }
  /// Fields that the columns come from, in their order.
  std::vector<std::string> fields() const;
  const std::vector<std::string>& target_names() const noexcept { return target_names_; }
  std::int64_t targets() const noexcept { return static_cast<std::int64_t>(target_names_.size()); }
  /// What the values 0, 1, … of the only target stand for, if they are labels.
  std::vector<std::string> value_names() const;
  /// Of each column whether its values stand for others.
  std::vector<bool> encoded() const;
  bool weighted() const noexcept { return !weights_.empty(); }
  at::ScalarType type() const noexcept { return type_; }

  /// Values of a sample, into places as wide as columns() and targets() say. What is missing is NaN, but for fields of
  /// which each value is a column: there it is the value ''. Fault::Data on a text that is none of its field's
  /// categories, unless it is the target of a model, which nobody has to know: then it is NaN.
  template <class T>
  void read(const data::Sample& sample, T* columns, double* targets, double* weight) const;

 private:
  enum class Kind { Numbers, Ordinal, OneHot };
  /// A field of the schema, and what becomes of it.
  struct Part {
    std::size_t place = 0;
    data::Field field;
    Kind kind = Kind::Numbers;
    std::vector<std::string> categories = {};
    std::vector<std::pair<std::string, std::int64_t>> numbers = {};  // of the categories, sorted by their texts
    bool unknown_is_missing = false;                                 // a text that is none of the categories

    std::int64_t width() const noexcept;
    void name(std::vector<std::string>& names) const;
    template <class T>
    void read(const data::Value& value, T* to) const;
  };
  static Part part_of(const data::Dataset& dataset, const std::string& name, Kind kind, const Categories& categories);
  template <class T>
  static void read_parts(const std::vector<Part>& parts, const data::Sample& sample, T* to);

  std::vector<Part> columns_, targets_, weights_;
  std::vector<std::string> names_, target_names_;
  at::ScalarType type_;
};

}  // namespace lockstep::ml
