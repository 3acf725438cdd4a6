job "j" {
  group "g" {
    task "t" {
      driver = "java" # refused: Invalid value; driver: unknown driver "java"
      config {
        command = "x"
      }
    }
  }
}
