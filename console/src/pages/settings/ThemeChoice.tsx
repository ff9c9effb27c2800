import { THEMES, theme, type Theme } from "../../lib/theme";
import { Icon, type IconName } from "../../ui/Icon";
import { Card } from "../../ui/Page";

const CHOICES: Record<Theme, { name: string; icon: IconName }> = {
  system: { name: "System", icon: "system" },
  light: { name: "Light", icon: "sun" },
  dark: { name: "Dark", icon: "moon" },
};

export function ThemeChoice() {
  return (
    <Card title="Theme">
      <fieldset class="plain-fieldset">
        <legend class="visually-hidden">Theme</legend>
        <div class="segments">
          {THEMES.map((each) => (
            <label key={each}>
              <input
                type="radio"
                name="theme"
                value={each}
                data-testid={`theme-${each}`}
                checked={theme.value === each}
                onChange={() => (theme.value = each)}
              />
              <Icon name={CHOICES[each].icon} size={16} />
              {CHOICES[each].name}
            </label>
          ))}
        </div>
      </fieldset>
    </Card>
  );
}
